"""Archives: nothing is believed, and nothing is inflated beyond the limits."""

import io
import tracemalloc
import zipfile

import pytest

from documents import archive, docx, lying_archive, paragraph
from knowport.adapters.loading.limits import LoadLimits
from knowport.adapters.loading.parsers.archive import entries, packed, safe_parts
from knowport.errors import LoadError


def parts_of(data, **limits):
    bounds = LoadLimits(**limits)
    return safe_parts(data, entries(data, bounds), bounds)


def refused(data, **limits):
    with pytest.raises(LoadError) as error:
        parts_of(data, **limits)
    return error.value


def noise(size):
    """Text that packs to about a half."""
    return "".join(f"{n * 2_654_435_761 % 2**32:x}" for n in range(size // 8))


def test_xml_is_inflated_and_nothing_else():
    data = archive({"a.xml": "<a/>", "b/c.rels": "<b/>", "media/d.png": b"x" * 9, "e.txt": "t"})

    assert parts_of(data) == {
        "a.xml": b"<a/>",
        "b/c.rels": b"<b/>",
        "media/d.png": b"",
        "e.txt": b"",
    }


def test_large_parts_are_inflated_whole():
    text = noise(3_000_000)

    assert parts_of(archive({"a.xml": text})) == {"a.xml": text.encode()}


def test_stored_parts_are_read():
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as file:
        file.writestr("a.xml", "<a/>")

    assert parts_of(stream.getvalue()) == {"a.xml": b"<a/>"}


def test_the_parser_gets_an_archive_of_exactly_what_was_counted():
    parts = {"a.xml": b"<a/>", "d.png": b""}

    with zipfile.ZipFile(packed(parts)) as file:
        assert {name: file.read(name) for name in file.namelist()} == parts


def test_a_part_that_packs_too_well_is_refused_before_it_is_inflated_in_full():
    data = archive({"word/document.xml": "A" * 64_000_000})

    tracemalloc.start()
    error = refused(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert error.reason == "zip_bomb"
    assert error.message == "'word/document.xml' inflates to more than 200 times its size."
    assert peak < 30_000_000


def test_small_parts_may_pack_well():
    assert len(parts_of(archive({"a.xml": "A" * 999_000}))["a.xml"]) == 999_000


@pytest.mark.parametrize("claimed", [0, 1_000])
def test_a_size_that_lies_is_refused(claimed):
    text = noise(2_000_000)
    error = refused(lying_archive(archive({"a.xml": text}), "a.xml", claimed))

    assert error.reason == "zip_bomb"
    assert error.message == "'a.xml' is larger than the archive says."


def test_inflated_bytes_are_counted_over_all_parts():
    data = archive({"a.xml": noise(60_000), "b.xml": noise(60_000)})

    assert len(parts_of(data, inflated_bytes=150_000)) == 2
    error = refused(data, inflated_bytes=100_000)

    assert error.reason == "too_large"
    assert error.message == "The archive inflates to more than 100000 bytes."


def test_entries_are_counted():
    data = archive({f"{n}.bin": "" for n in range(11)})

    assert len(parts_of(data, entries=11)) == 11
    error = refused(data, entries=10)

    assert error.reason == "too_large"
    assert error.message == "The archive has 11 entries; the limit is 10."


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_document_types_are_refused(encoding):
    bomb = '<?xml version="1.0"?><!DOCTYPE d [<!ENTITY a "lol">]><d>&a;</d>'

    error = refused(archive({"word/document.xml": bomb.encode(encoding)}))

    assert error.reason == "forbidden_dtd"
    assert error.message.startswith("'word/document.xml' declares a document type")


def test_an_encrypted_entry_is_encrypted():
    data = bytearray(archive({"a.xml": "<a/>"}))
    directory = data.index(b"PK\x01\x02")
    data[directory + 8] |= 1

    assert refused(bytes(data)).reason == "encrypted"


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"PK\x03\x04 not really a zip",
        lambda data: data[:-30],
        lambda data: data[: len(data) // 2],
        lambda data: data.replace(b"PK\x03\x04", b"PK\x03\x05"),
        lambda data: data[:40] + bytes(byte ^ 0x55 for byte in data[40:60]) + data[60:],
    ],
    ids=["no archive", "no end", "half", "no local header", "flipped bytes"],
)
def test_a_damaged_archive_is_broken(damage):
    error = refused(damage(docx(paragraph("text " * 50))))

    assert error.reason == "broken"
    assert error.remedy
