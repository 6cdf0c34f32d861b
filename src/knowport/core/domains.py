"""The domain catalogue, and which domains a query speaks of.

A domain is a category with the names people use for it::

    [[domain]]
    id = "mysql"                          # the category
    names = ["MySQL", "数据库"]
    aliases = ["mysqld", "innodb"]
    keywords = ["主从", "binlog", "deadlock"]

What a query suggests is a hint: it may steer the filter, and it is never evidence.
"""

from __future__ import annotations

import tomllib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from knowport.core.filter_values import checked_filter
from knowport.core.terms import STOP_WORDS
from knowport.errors import ConfigurationError, InvalidInput

_LISTS = ("names", "aliases", "keywords")


@dataclass(frozen=True, slots=True)
class Domain:
    """``id`` is the category; ``phrases`` are all its names, aliases and keywords, normalised."""

    id: str
    names: tuple[str, ...]
    aliases: tuple[str, ...]
    keywords: tuple[str, ...]

    @property
    def phrases(self) -> frozenset[str]:
        return frozenset((*self.names, *self.aliases, *self.keywords))


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about a catalogue that its author should know; ``code`` is stable."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Domains by id, in order of the file."""

    domains: tuple[Domain, ...] = ()

    def match(self, text: str) -> tuple[str, ...]:
        """Ids of the domains that a normalised query names, sorted.

        The longest phrase wins where phrases overlap ("redis cluster" over "redis"); a phrase in
        Latin letters must stand between word borders; one that two domains share names both.
        """
        folded = _folded(text)
        owners: dict[str, set[str]] = {}
        for domain in self.domains:
            for phrase in domain.phrases:
                owners.setdefault(phrase, set()).add(domain.id)
        taken = [False] * len(folded)
        matched: set[str] = set()
        for phrase in sorted(owners, key=lambda phrase: (-len(phrase), phrase)):
            for start in _occurrences(folded, phrase):
                end = start + len(phrase)
                if not any(taken[start:end]):
                    taken[start:end] = [True] * len(phrase)
                    matched |= owners[phrase]
        return tuple(sorted(matched))

    def check(self, categories: Iterable[str]) -> tuple[Finding, ...]:
        """Hold the catalogue against the categories in the index."""
        known, findings = set(categories), []
        for domain in self.domains:
            if domain.id not in known:
                findings.append(
                    Finding("unknown_category", f"Domain '{domain.id}': no document has it.")
                )
        ids = {domain.id for domain in self.domains}
        findings.extend(
            Finding("unused_category", f"Category '{name}' has no domain.")
            for name in sorted(known - ids)
        )
        for position, one in enumerate(self.domains):
            for other in self.domains[position + 1 :]:
                shared = sorted(one.phrases & other.phrases)
                if shared:
                    findings.append(
                        Finding(
                            "shared_phrase",
                            f"Domains '{one.id}' and '{other.id}' share {', '.join(shared)}: "
                            "a query with it names neither alone.",
                        )
                    )
        return tuple(findings)


NO_DOMAINS = Catalogue()


def merge_catalogues(parts: Iterable[Catalogue]) -> Catalogue:
    """One catalogue of several; domains of one id put their phrases together."""
    merged: dict[str, Domain] = {}
    for domain in (domain for part in parts for domain in part.domains):
        one = merged.get(domain.id)
        merged[domain.id] = (
            domain
            if one is None
            else Domain(
                id=domain.id,
                names=_distinct(one.names, domain.names),
                aliases=_distinct(one.aliases, domain.aliases),
                keywords=_distinct(one.keywords, domain.keywords),
            )
        )
    return Catalogue(tuple(merged.values()))


def _distinct(*parts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(phrase for part in parts for phrase in part))


def parse_catalogue(text: str, *, where: str = "domains.toml") -> Catalogue:
    """Read a catalogue; raises ConfigurationError naming the domain and key at fault."""
    try:
        values = tomllib.loads(text)
    # Also a number of thousands of digits, and brackets in brackets without end.
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{where} is not TOML: {error}.") from error
    unknown = sorted(set(values) - {"domain"})
    entries = values.get("domain", [])
    if unknown or not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise ConfigurationError(
            f"{where} must hold [[domain]] tables only"
            + (f", not {', '.join(unknown)}." if unknown else "."),
            remedy="See examples/ops-kb/domains.toml.",
        )
    domains = [_domain(entry, where) for entry in entries]
    seen: set[str] = set()
    for domain in domains:
        if domain.id in seen:
            raise ConfigurationError(f"{where} has the domain id '{domain.id}' twice.")
        seen.add(domain.id)
    return Catalogue(tuple(domains))


def _domain(entry: Mapping[str, Any], where: str) -> Domain:
    try:
        name = checked_filter(entry["id"], field="id") if isinstance(entry.get("id"), str) else None
    except InvalidInput as error:
        raise ConfigurationError(f"{where}: {error.message}") from error
    if name is None:
        raise ConfigurationError(f"{where}: a domain has no id.", remedy='Give id = "category".')
    unknown = sorted(set(entry) - {"id", *_LISTS})
    if unknown:
        raise ConfigurationError(
            f"{where}: domain '{name}' has unknown keys {', '.join(unknown)}.",
            remedy=f"Known: id, {', '.join(_LISTS)}.",
        )
    lists = {key: _phrases(entry.get(key, []), f"{where}: {key} of '{name}'") for key in _LISTS}
    if not any(lists.values()):
        raise ConfigurationError(f"{where}: domain '{name}' has no names, aliases or keywords.")
    return Domain(id=name, **lists)


def _phrases(values: Any, what: str) -> tuple[str, ...]:
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise ConfigurationError(f"{what} must be a list of texts.")
    phrases = []
    for value in values:
        phrase = _folded(value) if isinstance(value, str) else ""
        if not phrase:
            raise ConfigurationError(f"{what} holds an empty keyword.", remedy="Remove it.")
        if phrase in STOP_WORDS:
            raise ConfigurationError(
                f"{what} holds '{phrase}', which stands in almost every question.",
                remedy="Choose a telling keyword.",
            )
        phrases.append(phrase)
    return tuple(dict.fromkeys(phrases))


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _occurrences(text: str, phrase: str) -> Iterable[int]:
    start = text.find(phrase)
    while start >= 0:
        if not (_cuts_word(text, start) or _cuts_word(text, start + len(phrase))):
            yield start
        start = text.find(phrase, start + 1)


def _cuts_word(text: str, border: int) -> bool:
    """Whether a border falls inside a run of Latin letters, digits and underscores.

    A digit after a letter is a border of its own kind: ``mysql8`` speaks of mysql.
    """
    if not 0 < border < len(text):
        return False
    before, after = text[border - 1], text[border]
    if not (_latin(before) and _latin(after)):
        return False
    return not (before.isalpha() and after.isdigit())


def _latin(c: str) -> bool:
    return c.isascii() and (c.isalnum() or c == "_")
