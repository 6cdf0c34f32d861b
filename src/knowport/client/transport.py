"""Requests over HTTP: sent again where that is safe, failures in our words."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

import httpx

from knowport.adapters.embedding.retry import seconds_asked, wait_before_retry
from knowport.client.errors import ServiceError, ServiceUnavailable, error_of
from knowport.errors import ConfigurationError

BUSY = frozenset({429, 503})
"""Nothing was done of a request that was answered so."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request. ``repeatable``: sending it twice does what sending it once does."""

    method: str
    path: str
    query: Mapping[str, str | int | None] | None = None
    body: Mapping[str, Any] | None = None
    form: Mapping[str, str | None] | None = None
    file: tuple[str, bytes] | None = None
    repeatable: bool = True


class Transport:
    """Sends calls to one service. Safe to use from several threads."""

    def __init__(
        self,
        server: str,
        api_key: str,
        *,
        timeout: float,
        retries: int,
        longest_wait: float,
        http: httpx.BaseTransport | None,
    ) -> None:
        self._server = _checked_address(server)
        self._retries = retries
        self._longest_wait = longest_wait
        self._rng = random.Random()
        headers = {"User-Agent": f"knowport/{version('knowport')}"}
        if api_key:
            headers["Authorization"] = f"Bearer {_checked_key(api_key)}"
        self._http = httpx.Client(
            base_url=self._server,
            headers=headers,
            timeout=timeout,
            follow_redirects=False,  # a redirect could carry the key elsewhere
            transport=http,
        )

    def close(self) -> None:
        self._http.close()

    def send(self, call: Call) -> bytes:
        """The body of a good reply. Raises ServiceError."""
        retry = 0
        while True:
            try:
                response = self._once(call)
            except httpx.TransportError as error:
                unsent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
                passing = unsent or isinstance(error, httpx.RemoteProtocolError | httpx.ReadError)
                again = passing and (unsent or call.repeatable)
                failure: ServiceError = self._unreachable(error)
                asked = None
            else:
                if response.is_success:
                    return response.content
                again = response.status_code in BUSY
                failure = error_of(response.status_code, _problem(response))
                asked = response.headers.get("Retry-After")
            too_long = seconds_asked(asked, wall_time=time.time()) > self._longest_wait
            if not again or too_long or retry == self._retries:
                raise failure
            wait = wait_before_retry(retry, asked, wall_time=time.time(), rng=self._rng)
            time.sleep(min(wait, self._longest_wait))
            retry += 1

    def _once(self, call: Call) -> httpx.Response:
        query = {k: v for k, v in (call.query or {}).items() if v is not None}
        form = {k: v for k, v in (call.form or {}).items() if v is not None}
        return self._http.request(
            call.method,
            call.path,
            params=query,
            json=call.body,
            data=form or None,
            files=None if call.file is None else {"file": call.file},
        )

    def _unreachable(self, error: httpx.TransportError) -> ServiceUnavailable:
        if isinstance(error, httpx.TimeoutException):
            return ServiceUnavailable(
                f"The service at {self._server} did not answer in time.",
                remedy="Try again later, or allow more time.",
            )
        return ServiceUnavailable(
            f"The service at {self._server} cannot be reached: {error}.",
            remedy="Check that it runs (`knowport serve`), and its address (KNOWPORT_SERVER).",
        )


def _problem(response: httpx.Response) -> Mapping[str, Any]:
    """The problem document of a reply; empty for what another server on the way said."""
    try:
        value = response.json()
    except ValueError:
        return {}
    return value if isinstance(value, dict) and "code" in value else {}


def _checked_address(server: str) -> str:
    wrong = ConfigurationError(
        "The address of the service cannot be used.",
        remedy="Give it as http://host:port, without user and password (KNOWPORT_SERVER).",
    )
    try:
        parts = urlsplit(server)
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port or True)
    except ValueError:
        raise wrong from None
    if not usable or parts.username or parts.password or parts.query or parts.fragment:
        raise wrong
    return server.rstrip("/")


def _checked_key(api_key: str) -> str:
    if not (api_key.isascii() and api_key.isprintable() and " " not in api_key):
        raise ConfigurationError(
            "The access key is not one: it holds white space or other than ASCII characters.",
            remedy="Give the key as `knowport keys create` printed it (KNOWPORT_API_KEY).",
        )
    return api_key
