"""Generations and rebuilds of a service; they take an admin's key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from pydantic import TypeAdapter

from knowport.client.reading import given, value_of
from knowport.client.transport import Call, Transport
from knowport.client.values import GenerationList, Job

_DROPPED = TypeAdapter(dict[str, str])
_JOB = TypeAdapter(Job)
_LIST = TypeAdapter(GenerationList)


class Rebuild:
    """The steps of a rebuild. Those that take long return a job; see ``Client.wait``."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def status(self) -> GenerationList:
        """Every generation, oldest first, and what can be done next."""
        return value_of(_LIST, self._transport.send(Call("GET", "/v1/generations")))

    def run(self, *, switch: bool = True, force: bool = False) -> Job:
        """Build a new generation with the settings of the service, verify it and, unless
        ``switch`` is false, switch to it."""
        return self._begin("", {"switch": switch, "force": force})

    def verify(self) -> Job:
        """Prove the generation that is built. The job's result says whether it passed."""
        return self._begin("/verify")

    def activate(self, *, force: bool = False) -> Job:
        """Switch to the generation that is verified."""
        return self._begin("/activate", {"force": force})

    def rollback(self, name: str | None = None) -> Job:
        """Switch back to a previous generation, the last one unless another is named."""
        return self._begin("/rollback", given(name=name))

    def abort(self) -> str:
        """Drop the generation that is not switched to yet; returns its collection."""
        return self._dropped(Call("POST", "/v1/generations/abort", repeatable=False))

    def drop(self, name: str) -> str:
        """Drop a previous generation; returns its collection."""
        return self._dropped(Call("DELETE", f"/v1/generations/{quote(name, safe='')}"))

    def _begin(self, path: str, body: Mapping[str, Any] | None = None) -> Job:
        call = Call("POST", f"/v1/generations{path}", body=body, repeatable=False)
        return value_of(_JOB, self._transport.send(call))

    def _dropped(self, call: Call) -> str:
        return value_of(_DROPPED, self._transport.send(call))["dropped"]
