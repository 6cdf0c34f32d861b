"""Generations and rebuilds of a service; they take an admin's key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from pydantic import TypeAdapter

from knowport.client.reading import given, value_of
from knowport.client.transport import Call, Transport
from knowport.client.values import GenerationList, Job

_DROPPED = TypeAdapter(dict[str, str])
_JOB = TypeAdapter(Job)
_JSON = TypeAdapter(dict[str, Any])
_LIST = TypeAdapter(GenerationList)


class Rebuild:
    """The steps of a rebuild. Those that take long return a job; see ``Client.wait``."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def status(self) -> GenerationList:
        """Every generation, oldest first, and what can be done next."""
        return value_of(_LIST, self._transport.send(Call("GET", "/v1/generations")))

    def details(self) -> dict[str, Any]:
        """The same and more, as `knowport rebuild status --json` prints it."""
        return value_of(_JSON, self._transport.send(Call("GET", "/v1/generations")))

    def run(
        self,
        *,
        switch: bool = True,
        force: bool = False,
        sample: int | None = None,
        queries: Sequence[Mapping[str, Any]] | None = None,
    ) -> Job:
        """Build a new generation with the settings of the service, verify it and switch to it; with
        ``switch`` false only build it.

        ``sample`` chunks are searched for, and labelled ``queries`` (objects as the lines that
        `knowport calibrate` reads) must not do worse.
        """
        return self._begin(
            "", given(switch=switch, force=force, sample=sample, queries=_listed(queries))
        )

    def verify(
        self,
        *,
        sample: int | None = None,
        queries: Sequence[Mapping[str, Any]] | None = None,
    ) -> Job:
        """Prove the generation that is built. The job's result says whether it passed."""
        return self._begin("/verify", given(sample=sample, queries=_listed(queries)))

    def activate(self, *, force: bool = False) -> Job:
        """Switch to the generation that is verified."""
        return self._begin("/activate", {"force": force})

    def rollback(self, name: str | None = None) -> Job:
        """Switch back to a previous generation, the last one unless another is named."""
        return self._begin("/rollback", given(name=name))

    def abort(self) -> str:
        """Drop the generation that is not switched to yet; returns its name."""
        return self._dropped(Call("POST", "/v1/generations/abort", repeatable=False))

    def drop(self, name: str) -> str:
        """Drop a previous generation; returns its collection."""
        return self._dropped(Call("DELETE", f"/v1/generations/{quote(name, safe='')}"))

    def _begin(self, path: str, body: Mapping[str, Any]) -> Job:
        call = Call("POST", f"/v1/generations{path}", body=body, repeatable=False)
        return value_of(_JOB, self._transport.send(call))

    def _dropped(self, call: Call) -> str:
        return value_of(_DROPPED, self._transport.send(call))["dropped"]


def _listed(queries: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]] | None:
    return None if queries is None else [dict(query) for query in queries]
