"""adapters/loading/find and patterns: which files are found, and what is said of the others."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path, PurePath

import pytest

from knowport.adapters.loading import find_files, literal, selector
from knowport.errors import InvalidInput
from knowport.model import FileResult


def make(root: Path, *names: str, text: str = "text") -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def found(root: Path, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> list[str]:
    """Paths of the files below the root."""
    files = find_files(root, include, exclude)
    return [file.relative_to(root).as_posix() for file in files if isinstance(file, Path)]


def told(root: Path) -> list[tuple[str, str, str]]:
    """Path, outcome and reason of what is no file to be read."""
    return [
        (Path(file.path).relative_to(root).as_posix(), str(file.outcome), file.reason)
        for file in find_files(root)
        if isinstance(file, FileResult)
    ]


def test_files_are_found_at_every_depth_in_order_of_path(tmp_path: Path) -> None:
    names = ["z.md", "a/x.md", "a-b.md", "a/b/c.txt", "B.md", "中文/备份.md", "a/b-c.md", "x.pdf"]
    make(tmp_path, *names)
    # A folder's files stand together: 'a/x.md' before 'a-b.md', though '-' sorts before '/'.
    assert found(tmp_path) == sorted(names, key=lambda name: PurePath(name).parts)
    assert found(tmp_path)[:4] == ["B.md", "a/b/c.txt", "a/b-c.md", "a/x.md"]


def test_hidden_files_and_the_catalogue_at_the_top_are_left_out(tmp_path: Path) -> None:
    make(tmp_path, "a.md", ".hidden.md", ".git/config.md", "sub/.env", "sub/b.md")
    make(tmp_path, "domains.toml", "sub/domains.toml")
    assert found(tmp_path) == ["a.md", "sub/b.md", "sub/domains.toml"]


def test_links_are_never_followed_and_are_told(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    make(outside, "secret.md")
    make(root, "a.md", "sub/b.md")
    (root / "file.md").symlink_to(outside / "secret.md")
    (root / "folder").symlink_to(outside)
    (root / "inside.md").symlink_to(root / "a.md")
    (root / "sub" / "loop").symlink_to(root)
    (root / "broken.md").symlink_to(root / "gone.md")
    assert found(root) == ["a.md", "sub/b.md"]
    links = ["broken.md", "file.md", "folder", "inside.md", "sub/loop"]
    assert told(root) == [(name, "skipped", "link") for name in links]


def test_what_is_neither_file_nor_folder_is_told(tmp_path: Path) -> None:
    make(tmp_path, "a.md")
    os.mkfifo(tmp_path / "pipe.md")
    assert found(tmp_path) == ["a.md"]
    assert told(tmp_path) == [("pipe.md", "skipped", "special")]


def test_a_root_may_be_a_link_or_hidden_because_it_was_named(tmp_path: Path) -> None:
    make(tmp_path, ".docs/a.md")
    (tmp_path / "link").symlink_to(tmp_path / ".docs")
    assert found(tmp_path / ".docs") == found(tmp_path / "link") == ["a.md"]


def test_a_single_file_is_found_by_itself(tmp_path: Path) -> None:
    make(tmp_path, "a.md", "b.md", ".c.md")
    assert list(find_files(tmp_path / "b.md")) == [tmp_path / "b.md"]
    assert list(find_files(tmp_path / ".c.md")) == [tmp_path / ".c.md"]


def test_an_empty_folder_has_no_files(tmp_path: Path) -> None:
    assert list(find_files(tmp_path)) == []


@pytest.mark.parametrize("name", ["gone", "gone/a.md", "nul\0"])
def test_a_path_that_is_not_there_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        list(find_files(tmp_path / name))
    assert caught.value.field == "path"
    assert caught.value.message == f"{str(tmp_path / name)!r} does not exist."


def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"File name too long") as caught:
        list(find_files(tmp_path / ("x" * 5_000)))
    assert caught.value.field == "path"


def deny(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let a folder be unreadable; root, who runs the tests in a container, may read all."""
    real = os.scandir

    def scandir(path: str) -> object:
        if str(path) == str(folder):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)


def test_an_unreadable_folder_is_told_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, "a/a.md", "locked/b.md", "z/z.md")
    deny(monkeypatch, tmp_path / "locked")
    assert found(tmp_path) == ["a/a.md", "z/z.md"]
    assert told(tmp_path) == [("locked", "failed", "unreadable")]
    (result,) = (file for file in find_files(tmp_path) if isinstance(file, FileResult))
    assert result.detail.startswith("The folder cannot be read: Permission denied.")


def test_an_unreadable_root_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deny(monkeypatch, tmp_path)
    with pytest.raises(InvalidInput, match=r"cannot be read: Permission denied\."):
        list(find_files(tmp_path))


def test_folders_may_be_nested_deeper_than_python_recurses(tmp_path: Path) -> None:
    before = Path.cwd()
    try:
        os.chdir(tmp_path)
        for _ in range(1_200):
            os.mkdir("d")  # noqa: PTH102  # relative, because the whole path is too long for a call
            os.chdir("d")
        Path("deep.md").write_text("text")
        os.chdir(tmp_path)
        assert found(Path()) == ["d/" * 1_200 + "deep.md"]
    finally:
        os.chdir(before)
        # What pytest tidies up with recurses.
        subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)


# -- patterns -------------------------------------------------------------------------------------

NAMES = ["a.md", "b.txt", "build/x.md", "docs/a.md", "docs/build/y.md", "docs/draft-1.md"]


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        ([], [], NAMES),
        (["*.md"], [], ["a.md", "build/x.md", "docs/a.md", "docs/build/y.md", "docs/draft-1.md"]),
        (["docs/"], [], ["docs/a.md", "docs/build/y.md", "docs/draft-1.md"]),
        (["/a.md", "*.txt"], [], ["a.md", "b.txt"]),
        ([], ["build/"], ["a.md", "b.txt", "docs/a.md", "docs/draft-1.md"]),
        ([], ["/build"], ["a.md", "b.txt", "docs/a.md", "docs/build/y.md", "docs/draft-1.md"]),
        ([], ["docs/**/*.md"], ["a.md", "b.txt", "build/x.md"]),
        (["*.md", "!draft-*"], ["build"], ["a.md", "docs/a.md"]),
        # As in git: what lies in an excluded folder is not taken back in.
        ([], ["build/", "!build/x.md"], ["a.md", "b.txt", "docs/a.md", "docs/draft-1.md"]),
        ([], ["*"], []),
        (["nothing"], [], []),
    ],
)
def test_patterns_include_and_exclude(
    tmp_path: Path, include: list[str], exclude: list[str], expected: list[str]
) -> None:
    make(tmp_path, *NAMES)
    assert found(tmp_path, include, exclude) == expected
    selects = selector(include, exclude)
    assert [name for name in NAMES if selects(name)] == expected


def test_ignore_files_belong_to_their_folder_and_the_deepest_decides(tmp_path: Path) -> None:
    make(tmp_path, "a.tmp", "keep.tmp", "sub/b.tmp", "sub/keep.tmp", "sub/deep/c.tmp", "sub/d.md")
    make(tmp_path, "other/d.md", "old/e.md")
    make(tmp_path, ".knowportignore", text="# remark\n*.tmp\n!keep.tmp\n/old/\n")
    make(tmp_path, "sub/.knowportignore", text="\ufeff!/b.tmp\nd.md\nkeep.tmp\n")
    assert found(tmp_path) == ["keep.tmp", "other/d.md", "sub/b.tmp"]
    assert told(tmp_path) == []


@pytest.mark.parametrize("content", [b"caf\xe9\n", b"!\n"], ids=["not UTF-8", "no pattern"])
def test_a_folder_whose_ignore_file_cannot_be_understood_is_not_taken(
    tmp_path: Path, content: bytes
) -> None:
    make(tmp_path, "a.md", "sub/secret.md")
    (tmp_path / "sub" / ".knowportignore").write_bytes(content)
    assert found(tmp_path) == ["a.md"]
    assert told(tmp_path) == [("sub", "failed", "unreadable")]
    (tmp_path / ".knowportignore").write_bytes(content)
    with pytest.raises(InvalidInput) as caught:
        list(find_files(tmp_path))
    assert str(tmp_path / ".knowportignore") in caught.value.message


@pytest.mark.parametrize("field", ["include", "exclude"])
def test_a_wrong_pattern_is_refused(tmp_path: Path, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        list(find_files(tmp_path, **{field: ["*.md", "!"]}))
    assert caught.value.field == field
    assert "'!'" in caught.value.message


@pytest.mark.parametrize("name", ["data", "a b", "x[1]*?", "!a", "#b", "back\\slash", "end "])
def test_a_literal_pattern_is_that_path_and_no_other(name: str) -> None:
    selects = selector([], [literal(name)])
    assert not selects(f"{name}/")
    assert not selects(f"{name}/file.md")
    assert selects(f"sub/{name}/file.md")
    assert selects("x1a/file.md")
