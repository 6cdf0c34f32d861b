"""Access keys in a ledger."""

from dataclasses import replace

from knowport.model import ApiKey

from .ledgers import failure

KEY = ApiKey(
    key_id="k1",
    key_hash="1" * 64,
    kb_scope="default",
    role="writer",
    name="机器人 🚀",
    created_at="2026-11-30T12:00:00+00:00",
    expires_at="2027-11-30T12:00:00+00:00",
)
OTHER = ApiKey("k0", "0" * 64, "ops", "admin", "", "2026-11-30T12:00:00+00:00")


def test_keys_come_back_in_order_of_creation(opened):
    assert opened().keys() == ()

    opened().add_key(KEY)
    opened().add_key(OTHER)

    assert opened().keys() == (KEY, OTHER)
    assert opened().key_of_hash("1" * 64) == KEY
    assert opened().key_of_hash("2" * 64) is None


def test_a_key_is_revoked_once(ledger):
    ledger.add_key(KEY)
    ledger.add_key(OTHER)
    when = "2026-12-01T12:00:00+00:00"

    assert ledger.revoke_key("k1", revoked_at=when)
    assert not ledger.revoke_key("k1", revoked_at="2026-12-02T12:00:00+00:00")
    for unknown in ("k2", "", "nul\0", "\ud835"):
        assert not ledger.revoke_key(unknown, revoked_at=when)

    assert ledger.keys() == (replace(KEY, revoked_at=when), OTHER)
    assert ledger.key_of_hash("1" * 64).revoked_at == when


def test_neither_an_id_nor_a_hash_is_taken_twice(ledger):
    ledger.add_key(KEY)

    failure(ledger.add_key, replace(KEY, key_hash="2" * 64))
    failure(ledger.add_key, replace(KEY, key_id="k2"))

    assert ledger.keys() == (KEY,)
