"""adapters/loading: which files are found, and the catalogue beside them."""

import os
from pathlib import Path, PurePath

import pytest

from knowport.adapters.loading import find_files, read_catalogue
from knowport.errors import ConfigurationError, InvalidInput
from knowport.model import FileResult


def make(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text")


def found(root):
    entries = [entry for entry in find_files(root) if isinstance(entry, Path)]
    return [path.relative_to(root).as_posix() for path in entries]


def told(root):
    """Outcome and reason of what is not found, by path."""
    results = [entry for entry in find_files(root) if isinstance(entry, FileResult)]
    return {Path(r.path).relative_to(root).as_posix(): (r.outcome.value, r.reason) for r in results}


# -- finding --------------------------------------------------------------------------------


def test_files_are_found_at_every_depth_in_order_of_path(tmp_path):
    names = ["z.md", "a/x.md", "a-b.md", "a/b/c.txt", "B.md", "中文/备份.md", "a/b-c.md", "x.pdf"]
    make(tmp_path, *names)

    # a folder's files stand together: 'a/x.md' before 'a-b.md', though '-' sorts before '/'
    assert found(tmp_path) == sorted(names, key=lambda name: PurePath(name).parts)
    assert found(tmp_path)[:4] == ["B.md", "a/b/c.txt", "a/b-c.md", "a/x.md"]


def test_hidden_files_and_folders_are_left_out(tmp_path):
    make(tmp_path, "a.md", ".hidden.md", ".git/config.md", "sub/.env", "sub/b.md")

    assert found(tmp_path) == ["a.md", "sub/b.md"]


def test_links_are_left_out(tmp_path):
    outside = tmp_path / "outside"
    root = tmp_path / "root"
    make(outside, "secret.md")
    make(root, "a.md", "sub/b.md")
    (root / "file.md").symlink_to(outside / "secret.md")
    (root / "folder").symlink_to(outside)
    (root / "inside.md").symlink_to(root / "a.md")
    (root / "sub" / "loop").symlink_to(root)
    (root / "broken.md").symlink_to(root / "gone.md")

    assert found(root) == ["a.md", "sub/b.md"]
    links = ["broken.md", "file.md", "folder", "inside.md", "sub/loop"]
    assert told(root) == dict.fromkeys(links, ("skipped", "link"))


def test_what_is_neither_file_nor_folder_is_left_out(tmp_path):
    make(tmp_path, "a.md")
    os.mkfifo(tmp_path / "pipe.md")

    assert found(tmp_path) == ["a.md"]
    assert told(tmp_path) == {"pipe.md": ("skipped", "special")}


def test_a_root_may_be_a_link_or_hidden_because_it_was_named(tmp_path):
    make(tmp_path, ".docs/a.md")
    (tmp_path / "link").symlink_to(tmp_path / ".docs")

    assert found(tmp_path / ".docs") == found(tmp_path / "link") == ["a.md"]


def test_a_single_file_is_found_by_itself(tmp_path):
    make(tmp_path, "a.md", "b.md", ".c.md")

    assert list(find_files(tmp_path / "b.md")) == [tmp_path / "b.md"]
    assert list(find_files(tmp_path / ".c.md")) == [tmp_path / ".c.md"]


def test_an_empty_folder_has_no_files(tmp_path):
    assert found(tmp_path) == []


@pytest.mark.parametrize("name", ["gone", "gone/a.md", "nul\0"])
def test_a_path_that_is_not_there_is_refused(tmp_path, name):
    with pytest.raises(InvalidInput) as error:
        list(find_files(tmp_path / name))

    assert error.value.field == "path"
    assert error.value.message == f"{str(tmp_path / name)!r} does not exist."


def test_a_name_that_no_file_can_have_is_refused(tmp_path):
    with pytest.raises(InvalidInput) as error:
        list(find_files(tmp_path / ("x" * 5_000)))

    assert error.value.field == "path"


def denied(_self, *_args, **_options):
    raise PermissionError(13, "Permission denied")


def test_a_folder_that_cannot_be_read_is_told_and_not_left_out(tmp_path, monkeypatch):
    make(tmp_path, "a.md", "locked/b.md", "z.md")
    locked = str(tmp_path / "locked")
    real = os.scandir

    # root, who runs the tests in many a container, may read everything
    def deny_there(folder):
        return denied(folder) if os.fspath(folder) == locked else real(folder)

    monkeypatch.setattr(os, "scandir", deny_there)

    assert found(tmp_path) == ["a.md", "z.md"]
    assert told(tmp_path) == {"locked": ("failed", "unreadable")}


def test_a_root_below_a_locked_folder_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "is_file", denied)

    with pytest.raises(InvalidInput, match=r"cannot be read: Permission denied\."):
        list(find_files(tmp_path / "a.md"))


# -- the domain catalogue -------------------------------------------------------------------


def test_a_catalogue_is_read_from_the_top_of_a_folder(tmp_path):
    (tmp_path / "domains.toml").write_text("# 域 🚀\n", encoding="utf-8")

    assert read_catalogue(tmp_path) == "# 域 🚀\n"


def test_a_folder_or_a_single_file_may_have_no_catalogue(tmp_path):
    make(tmp_path, "a.md", "sub/domains.toml")

    assert read_catalogue(tmp_path) is None
    assert read_catalogue(tmp_path / "a.md") is None
    assert read_catalogue(tmp_path / "gone") is None


@pytest.mark.parametrize("problem", ["not UTF-8", "no permission"])
def test_a_catalogue_that_cannot_be_read_is_a_wrong_setting(tmp_path, monkeypatch, problem):
    path = tmp_path / "domains.toml"
    path.write_bytes(b"caf\xe9")
    if problem == "no permission":
        monkeypatch.setattr(Path, "is_file", denied)

    with pytest.raises(ConfigurationError) as error:
        read_catalogue(tmp_path)

    assert error.value.message.startswith(f"{path} cannot be read: ")
