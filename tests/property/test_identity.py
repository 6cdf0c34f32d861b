"""Whatever a document is called: an accepted name has keys that lead back to it."""

import contextlib
import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st

from knowport.core.identity import checked_doc_id, evidence_key, parse_evidence_key
from knowport.errors import InvalidInput

marks = st.sampled_from(["#chunk-", "#chunk-0", "#", "/", ".", "..", "7", "Å", "A\u030a", "\u030a"])
names = st.lists(st.text(max_size=8) | marks, max_size=8).map("".join) | st.text(max_size=450)
indexes = st.integers(0, 10**18 - 1)


def accepted(name: str) -> str | None:
    with contextlib.suppress(InvalidInput):
        return checked_doc_id(name)
    return None


@given(names, indexes)
@example("a#chunk-1\u0338", 1)
def test_a_key_leads_back_to_its_document_and_index(name, index):
    doc_id = accepted(name)
    if doc_id is not None:
        assert parse_evidence_key(evidence_key(doc_id, index, "v", 1)) == (doc_id, index)


@given(names)
def test_an_accepted_id_is_composed_clean_and_within_the_limit(name):
    doc_id = accepted(name)
    if doc_id is not None:
        assert doc_id == unicodedata.normalize("NFC", name)
        assert checked_doc_id(doc_id) == doc_id
        assert 0 < len(doc_id.encode()) <= 400
        assert not any(unicodedata.category(c) in ("Cc", "Cs") for c in doc_id)
        assert ".." not in doc_id.split("/")


@given(names, indexes, names, indexes)
def test_two_chunks_never_share_a_key(name, index, other_name, other_index):
    one, other = accepted(name), accepted(other_name)
    if one is not None and other is not None and (one, index) != (other, other_index):
        assert evidence_key(one, index, "", 1) != evidence_key(other, other_index, "", 1)


@given(names)
def test_parsing_raises_nothing_but_invalid_input(key):
    with contextlib.suppress(InvalidInput):
        doc_id, index = parse_evidence_key(key)
        assert evidence_key(doc_id, index, "", 1) == key
