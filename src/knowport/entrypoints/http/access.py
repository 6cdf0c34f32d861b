"""Who asks, and what that key may do.

Without any access key the service listens on loopback only, and whoever reaches it may do
everything. With keys every route but the health checks and the API description needs one, the key
decides the scope, and other scopes are as if they did not exist.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer
from starlette.types import Scope

from knowport.core.filter_values import checked_filter
from knowport.entrypoints.http.problems import Problem
from knowport.model import Role
from knowport.pipelines.access import AccessKeys

RANKS: dict[Role, int] = {"reader": 0, "writer": 1, "admin": 2}
_TOKEN = re.compile(rb"(?i)bearer +([^\s]+)[ \t]*")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request. ``kb_scope`` is the one its key is bound to; None without keys, where
    every scope may be named."""

    role: Role
    kb_scope: str | None = None
    key_id: str = ""

    def scope(self, asked: str | None, default: str) -> str:
        """The scope of a request that names ``asked``, or none.

        Raises Problem (404) for another than the key's, whether it exists or not, and InvalidInput
        for what cannot be a scope.
        """
        named = checked_filter(asked, field="kb_scope")
        if self.kb_scope is None:
            return named or default
        if named not in (None, self.kb_scope):
            raise Problem(
                404,
                "unknown_scope",
                f"There is no scope {named!r}.",
                remedy="Leave kb_scope out: the access key decides it.",
            )
        return self.kb_scope

    def sees(self, kb_scope: object) -> bool:
        """Whether what stands in that scope is there for this caller."""
        return self.kb_scope in (None, kb_scope)

    def needs(self, role: Role) -> None:
        """Raises Problem (403) where the key's role is a lesser one."""
        if RANKS[self.role] < RANKS[role]:
            raise Problem(
                403,
                "forbidden",
                f"This needs a key of the role {role}; this key is a {self.role}'s.",
                remedy=f"Use a key made by `knowport keys create --role {role}`.",
            )


OPEN = Caller("admin")


def identify(scope: Scope, keys: AccessKeys) -> Caller:
    """The caller of a request, by its Authorization header.

    Raises Problem (401) where a key is needed and there is none that can be used.
    """
    if not keys.any():
        return OPEN
    sent = [value for name, value in scope["headers"] if name == b"authorization"]
    token = _TOKEN.fullmatch(sent[0]) if len(sent) == 1 else None
    key = keys.holder(token[1]) if token else None
    if key is None:
        # One answer for every wrong key: it tells nothing about which ones there are.
        raise Problem(
            401,
            "unauthorized",
            "This needs an access key, and there is none in the request that can be used.",
            remedy="Send a key made by `knowport keys create` as the bearer token of the "
            "Authorization header; the command line takes it from KNOWPORT_API_KEY.",
            headers={"WWW-Authenticate": 'Bearer realm="knowport"'},
        )
    return Caller(key.role, key.kb_scope, key.key_id)


_BEARER = HTTPBearer(
    auto_error=False, scheme_name="accessKey", description="An access key: `kp_...`"
)


def _caller(role: Role) -> object:
    # The wall has identified the caller; the scheme is there for the API description.
    async def needed(request: Request, _: Annotated[object, Security(_BEARER)]) -> Caller:
        caller: Caller = request.state.caller
        caller.needs(role)
        return caller

    return Depends(needed)


Reader = Annotated[Caller, _caller("reader")]
Writer = Annotated[Caller, _caller("writer")]
Admin = Annotated[Caller, _caller("admin")]
