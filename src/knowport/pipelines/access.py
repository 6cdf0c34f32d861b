"""Access keys: made, told apart, revoked.

A key is ``kp_`` and 32 random bytes in URL-safe base64. It is shown once; the ledger keeps its
SHA-256. Random keys of that length need no salt and no slow hash: they cannot be guessed.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from datetime import UTC, datetime

from knowport.core.filter_values import checked_filter
from knowport.core.redaction import KEY_PREFIX
from knowport.errors import InvalidInput
from knowport.model import ApiKey, Role
from knowport.ports import Ledger

_BYTES = 32


class AccessKeys:
    """The access keys of a knowledge base. Safe to use from several threads."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known: tuple[ApiKey, ...] = ()

    def create(
        self, *, kb_scope: str, role: Role, name: str = "", expires_at: datetime | None = None
    ) -> tuple[str, ApiKey]:
        """Make a key; returns it, which nothing can show again, and what is kept of it.

        ``expires_at`` must be in the future and have a time zone. Raises InvalidInput.
        """
        scope = checked_filter(kb_scope, field="scope")
        if scope is None:
            raise InvalidInput("The scope is blank.", field="scope", remedy="Name a scope.")
        now = datetime.now(UTC)
        if expires_at is not None and expires_at <= now:
            raise InvalidInput(
                f"The key would expire in the past, at {_text(expires_at)}.",
                field="expires",
                remedy="Give a later time.",
            )
        secret = KEY_PREFIX + secrets.token_urlsafe(_BYTES)
        key = ApiKey(
            key_id=secrets.token_hex(4),
            key_hash=_hash(secret.encode()),
            kb_scope=scope,
            role=role,
            name=checked_filter(name, field="name") or "",
            created_at=_text(now),
            expires_at="" if expires_at is None else _text(expires_at),
        )
        self._ledger.add_key(key)
        return secret, key

    def listed(self) -> tuple[ApiKey, ...]:
        """Every key, in order of creation, revoked and expired ones as well."""
        return self._ledger.keys()

    def revoke(self, key_id: str) -> None:
        """Let a key serve no more. Raises InvalidInput where there is none of that id."""
        if not self._ledger.revoke_key(key_id, revoked_at=_text(datetime.now(UTC))):
            raise InvalidInput(
                f"No valid key has the id {key_id!r}.",
                field="key_id",
                remedy="See `knowport keys list`.",
            )

    def refresh(self) -> None:
        """Read the keys anew for the methods below, which only look at what was read last."""
        self._known = self._ledger.keys()

    def any(self) -> bool:
        """Whether a key was ever made. Expired and revoked ones count: that the last key has
        ended must not open what it guarded."""
        return bool(self._known)

    def usable(self) -> bool:
        """Whether some key would be accepted now."""
        return any(is_usable(key) for key in self._known)

    def holder(self, secret: bytes) -> ApiKey | None:
        """The key that is ``secret``, if it is one that is neither expired nor revoked.

        Every key is compared, and each in constant time.
        """
        asked = _hash(secret).encode()
        found = None
        for key in self._known:
            if hmac.compare_digest(key.key_hash.encode(), asked):
                found = key
        return found if found is not None and is_usable(found) else None


def is_usable(key: ApiKey) -> bool:
    """Whether a key is neither revoked nor expired."""
    if key.revoked_at:
        return False
    return not key.expires_at or datetime.fromisoformat(key.expires_at) > datetime.now(UTC)


def _hash(secret: bytes) -> str:
    return hashlib.sha256(secret).hexdigest()


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds")
