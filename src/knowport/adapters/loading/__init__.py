"""From files to texts."""

from knowport.adapters.loading.files import find_files, load_file, read_catalogue

__all__ = ["find_files", "load_file", "read_catalogue"]
