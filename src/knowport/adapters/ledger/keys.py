"""Access keys, by their hashes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sqlalchemy import select, update

from knowport.adapters.ledger.database import Store
from knowport.adapters.ledger.documents import storable
from knowport.adapters.ledger.tables import keys
from knowport.model import ApiKey

_KEY: list[Any] = [column for column in keys.c if column.name != "number"]


class KeyStore(Store):
    """See ``knowport.ports.Ledger``."""

    def add_key(self, key: ApiKey) -> None:
        with self._write() as connection:
            connection.execute(keys.insert(), asdict(key))

    def keys(self) -> tuple[ApiKey, ...]:
        with self._read() as connection:
            rows = connection.execute(select(*_KEY).order_by(keys.c.number)).mappings()
            return tuple(ApiKey(**row) for row in rows)

    def key_of_hash(self, key_hash: str) -> ApiKey | None:
        with self._read() as connection:
            query = select(*_KEY).where(keys.c.key_hash == key_hash)
            row = connection.execute(query).mappings().first()
        return None if row is None else ApiKey(**row)

    def revoke_key(self, key_id: str, *, revoked_at: str) -> bool:
        if not storable(key_id):
            return False
        change = update(keys).where(keys.c.key_id == key_id, keys.c.revoked_at == "")
        with self._write() as connection:
            return connection.execute(change.values(revoked_at=revoked_at)).rowcount > 0
