"""adapters/loading: which files are found, and what each of them is read as."""

import os
from pathlib import Path, PurePath

import pytest

from knowport.adapters.loading import files, find_files, load_file, read_catalogue
from knowport.errors import ConfigurationError, InvalidInput, LoadError
from knowport.model import LoadedFile


def make(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text")


def found(root):
    return [path.relative_to(root).as_posix() for path in find_files(root)]


def refused(path):
    with pytest.raises(LoadError) as error:
        load_file(path)
    return error.value


@pytest.fixture
def file(tmp_path):
    def write(content, name="a.md"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


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


def test_what_is_neither_file_nor_folder_is_left_out(tmp_path):
    make(tmp_path, "a.md")
    os.mkfifo(tmp_path / "pipe.md")

    assert found(tmp_path) == ["a.md"]


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


@pytest.mark.parametrize("method", ["iterdir", "is_symlink"])
def test_a_folder_that_cannot_be_read_is_an_error_and_not_left_out(tmp_path, monkeypatch, method):
    make(tmp_path, "a.md", "locked/b.md")
    locked = tmp_path / "locked"
    real = getattr(Path, method)

    # root, who runs the tests in many a container, may read everything
    def deny_there(self):
        return denied(self) if self == locked else real(self)

    monkeypatch.setattr(Path, method, deny_there)
    with pytest.raises(InvalidInput) as error:
        found(tmp_path)

    assert error.value.field == "path"
    assert "cannot be read: Permission denied." in error.value.message
    assert str(tmp_path) in error.value.message


def test_a_root_below_a_locked_folder_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "is_file", denied)

    with pytest.raises(InvalidInput, match=r"cannot be read: Permission denied\."):
        list(find_files(tmp_path / "a.md"))


# -- reading --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text_format"),
    [
        ("a.md", "markdown"),
        ("A.MD", "markdown"),
        ("a.markdown", "markdown"),
        ("a.txt", "plain"),
        ("a.md.txt", "plain"),
    ],
)
def test_the_ending_of_a_name_tells_the_format(file, name, text_format):
    assert load_file(file("# 备份 🚀\r\n", name)) == LoadedFile("# 备份 🚀\r\n", text_format)


def test_an_empty_file_is_an_empty_text(file):
    assert load_file(file("")).text == ""


@pytest.mark.parametrize(
    ("name", "what"),
    [("a.pdf", ".pdf"), ("a.md~", ".md~"), ("README", "a name without an ending")],
)
def test_another_format_is_refused(file, name, what):
    error = refused(file("x", name))

    assert error.reason == "unsupported_format"
    assert error.message == f"{what} is not a known text format."
    assert error.remedy == "Known: .markdown, .md, .txt."


@pytest.mark.parametrize(
    ("raw", "position"),
    [
        ("重启数据库".encode("gbk"), 0),
        (b"caf\xe9", 3),
        ("end 备".encode()[:-1], 4),
        ("lone \ud800".encode("utf-8", "surrogatepass"), 5),
        (b"\xc0\xafoverlong", 0),
    ],
)
def test_what_is_not_utf_8_is_refused_with_its_place(file, raw, position):
    error = refused(file(raw))

    assert error.reason == "not_utf8"
    assert error.message == f"The file is not UTF-8: byte {position} cannot be decoded."
    assert error.remedy == "Convert it to UTF-8."


@pytest.mark.parametrize(
    "raw",
    [
        "UTF-16 text".encode("utf-16"),
        "UTF-16 text".encode("utf-16-be"),
        b"\0" * 5,
        b"%PDF" + b"\0" * 2 + b"x" * 193,
    ],
    ids=["utf-16", "utf-16-be", "zeros", "over 1 %"],
)
def test_binary_data_is_refused(file, raw):
    error = refused(file(raw))

    assert (error.reason, error.message) == ("not_text", "The file holds binary data.")


def test_a_stray_nul_in_a_text_is_left_for_cleaning(file):
    assert load_file(file(b"\0" + b"x" * 99)).text == "\0" + "x" * 99


def test_a_file_over_the_limit_is_refused_without_reading_it(file, monkeypatch):
    monkeypatch.setattr(files, "MAX_FILE_BYTES", 10)
    assert load_file(file("x" * 10)).text == "x" * 10

    monkeypatch.setattr(Path, "read_bytes", denied)
    error = refused(file("x" * 11))

    assert error.reason == "too_large"
    assert error.message == "The file has 11 bytes; the limit is 10."


def test_a_file_that_cannot_be_read_is_named_so(tmp_path):
    (tmp_path / "folder.md").mkdir()

    gone, folder = refused(tmp_path / "gone.md"), refused(tmp_path / "folder.md")

    assert (gone.reason, folder.reason) == ("unreadable", "unreadable")
    assert gone.message == "The file cannot be read: No such file or directory."
    assert folder.message == "The file cannot be read: Is a directory."


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
