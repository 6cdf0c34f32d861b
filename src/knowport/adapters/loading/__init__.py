"""From files to texts."""

from knowport.adapters.loading.files import digest_file, read_catalogue
from knowport.adapters.loading.find import find_files
from knowport.adapters.loading.limits import LoadLimits
from knowport.adapters.loading.loader import LOADER_VERSION, FileLoader, load_bytes, load_file
from knowport.adapters.loading.patterns import literal, selector
from knowport.adapters.loading.roots import Roots
from knowport.adapters.loading.watch import ticks

__all__ = [
    "LOADER_VERSION",
    "FileLoader",
    "LoadLimits",
    "Roots",
    "digest_file",
    "find_files",
    "literal",
    "load_bytes",
    "load_file",
    "read_catalogue",
    "selector",
    "ticks",
]
