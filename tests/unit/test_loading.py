"""adapters/loading/files: the domain catalogue beside the files."""

from pathlib import Path

import pytest

from knowport.adapters.loading import read_catalogue
from knowport.errors import ConfigurationError


def make(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text")


def test_a_catalogue_is_read_from_the_top_of_a_folder(tmp_path):
    (tmp_path / "domains.toml").write_text("# 域 🚀\n", encoding="utf-8")

    assert read_catalogue(tmp_path) == "# 域 🚀\n"


def test_a_folder_or_a_single_file_may_have_no_catalogue(tmp_path):
    make(tmp_path, "a.md", "sub/domains.toml")

    assert read_catalogue(tmp_path) is None
    assert read_catalogue(tmp_path / "a.md") is None
    assert read_catalogue(tmp_path / "gone") is None


def denied(_self):
    raise PermissionError(13, "Permission denied")


@pytest.mark.parametrize("problem", ["not UTF-8", "no permission"])
def test_a_catalogue_that_cannot_be_read_is_a_wrong_setting(tmp_path, monkeypatch, problem):
    path = tmp_path / "domains.toml"
    path.write_bytes(b"caf\xe9")
    if problem == "no permission":
        monkeypatch.setattr(Path, "is_file", denied)

    with pytest.raises(ConfigurationError) as error:
        read_catalogue(tmp_path)

    assert error.value.message.startswith(f"{path} cannot be read: ")
