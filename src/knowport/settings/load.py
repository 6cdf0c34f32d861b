"""Where settings come from, and what is said of those that cannot be used."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_settings import EnvSettingsSource, SettingsError

from knowport.errors import ConfigurationError
from knowport.settings.root import ENV_PREFIX, Settings

CONFIG_FILE = "knowport.toml"
# Names with our prefix that are not settings.
_ENV_OTHER = {
    "KNOWPORT_API_KEY",  # with KNOWPORT_SERVER, for the commands that talk to a running service
    "KNOWPORT_CONFIG",
    "KNOWPORT_SERVER",
    "KNOWPORT_SHARED",
    "KNOWPORT_TEST_CACHE",
}
_UNKNOWN = "there is no such setting"
_TOP_K = ("rag", "top_k")
_FROM_TOP_K = {("rag", "retrieve_k"), ("rag", "return_n")}


@dataclass(frozen=True, slots=True)
class EffectiveSetting:
    """One value in force: its dotted key, the value (secrets masked) and where it comes from."""

    key: str
    value: Any
    origin: str
    description: str


def load_settings(
    overrides: Mapping[str, Any] | None = None, *, config: Path | None = None
) -> Settings:
    """Settings from ``overrides`` (nested dicts), then the environment, then the TOML file.

    The file is ``config``, else ``$KNOWPORT_CONFIG``, else ``./knowport.toml`` if there is one.
    Raises ConfigurationError naming the key and where it was set.
    """
    layers = _layers(overrides or {}, config)
    merged: dict[str, Any] = {}
    for origin, values in reversed(layers):
        # pydantic-settings would take names such as _env_file for options of its own.
        for name in values.keys() - Settings.model_fields.keys():
            raise _unusable([f"{name} ({origin}): {_UNKNOWN}"])
        merged = _merged(merged, values)
    try:
        return Settings(**merged)
    except ValidationError as error:
        raise _explained(error, layers) from None


def effective_settings(
    overrides: Mapping[str, Any] | None = None, *, config: Path | None = None
) -> tuple[EffectiveSetting, ...]:
    """Every setting with its value, its origin and its meaning, secrets masked.

    Raises ConfigurationError like ``load_settings``, which takes the same arguments.
    """
    settings = load_settings(overrides, config=config)
    layers = _layers(overrides or {}, config)

    def walk(section: BaseModel, path: tuple[str, ...]) -> Iterator[EffectiveSetting]:
        for name, info in type(section).model_fields.items():
            value = getattr(section, name)
            where = (*path, name)
            if isinstance(value, BaseModel):
                yield from walk(value, where)
                continue
            if isinstance(value, SecretStr):
                value = "********" if value.get_secret_value() else ""
            elif isinstance(value, Path):
                value = str(value)
            elif isinstance(value, tuple):
                value = [str(item) for item in value]
            yield EffectiveSetting(
                ".".join(where), value, _origin(layers, where), info.description or ""
            )

    return tuple(walk(settings, ()))


def secrets_of(settings: BaseModel) -> tuple[str, ...]:
    """Every secret value that is set, passwords in addresses as well, for logs to leave out."""
    found: list[str] = []
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, BaseModel):
            found += secrets_of(value)
        elif isinstance(value, SecretStr) and value.get_secret_value():
            found += _with_password(value.get_secret_value())
    return tuple(found)


def _with_password(secret: str) -> list[str]:
    """The secret, and the password alone of an address or of ``user:password``."""
    if "://" not in secret:
        password = secret.partition(":")[2]
        return [secret, password] if password else [secret]
    try:
        found = urlsplit(secret).password
    except ValueError:
        found = None
    return [secret, found, unquote(found)] if found else [secret]


def _layers(overrides: Mapping[str, Any], config: Path | None) -> list[tuple[str, dict[str, Any]]]:
    """``(origin, values)`` from the strongest to the weakest."""
    file = _config_file(config)
    layers = [("command", dict(overrides)), ("environment", _from_environment())]
    if file is not None:
        layers.append((str(file), _from_file(file)))
    return layers


def _config_file(config: Path | None) -> Path | None:
    from_environment = os.environ.get("KNOWPORT_CONFIG")
    named = config or (Path(from_environment) if from_environment else None)
    if named is not None:
        if not named.is_file():
            raise ConfigurationError(f"The settings file {named} does not exist.")
        return named
    return Path(CONFIG_FILE) if Path(CONFIG_FILE).is_file() else None


def _from_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigurationError(f"The settings file {path} cannot be read: {error}.") from error


def _from_environment() -> dict[str, Any]:
    for name in os.environ:
        upper = name.upper()
        if upper.startswith(ENV_PREFIX) and upper not in _ENV_OTHER:
            path = upper.removeprefix(ENV_PREFIX).lower().split("__")
            if not _is_setting(path):
                raise ConfigurationError(
                    f"The environment variable {name} names no setting.",
                    remedy="See `knowport config` for the keys.",
                )
    source = EnvSettingsSource(Settings)
    # KNOWPORT_SERVER alone is an address, and no JSON of the section of that name.
    source.env_vars = {k: v for k, v in source.env_vars.items() if k.upper() not in _ENV_OTHER}
    try:
        return source()
    except SettingsError as error:  # its cause holds the value
        raise ConfigurationError(f"The environment cannot be used: {error}.") from None


def _is_setting(path: Sequence[str]) -> bool:
    """Whether a section or a key has that path."""
    section: Any = Settings
    for name in path:
        fields = section.model_fields if hasattr(section, "model_fields") else {}
        if name not in fields:
            return False
        section = fields[name].annotation
    return True


def _merged(weak: Mapping[str, Any], strong: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(weak)
    for key, value in strong.items():
        below = result.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        result[key] = _merged(below, value) if both else value  # type: ignore[arg-type]
    return result


def _origin(layers: list[tuple[str, dict[str, Any]]], path: tuple[str, ...]) -> str:
    for origin, values in layers:
        value: Any = values
        for name in path:
            if not isinstance(value, Mapping) or name not in value:
                break
            value = value[name]
        else:
            return origin
    if path in _FROM_TOP_K and (origin := _origin(layers, _TOP_K)) != "default":
        return f"{origin}, rag.top_k"
    return "default"


def _explained(
    error: ValidationError, layers: list[tuple[str, dict[str, Any]]]
) -> ConfigurationError:
    problems = []
    for item in error.errors(include_url=False, include_input=False):
        path = tuple(str(part) for part in item["loc"])
        key = ".".join(path)
        message = item["msg"].removeprefix("Value error, ")
        if item["type"] == "extra_forbidden":
            message = _UNKNOWN
        problems.append(f"{key} ({_origin(layers, path)}): {message}")
    return _unusable(problems)


def _unusable(problems: Sequence[str]) -> ConfigurationError:
    return ConfigurationError(
        "Settings cannot be used: " + "; ".join(problems) + ".",
        remedy="`knowport config --help` tells where settings come from.",
    )
