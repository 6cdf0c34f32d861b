"""Settings: from code, environment and ``knowport.toml``, in this order of precedence.

The environment names a key by its path, ``KNOWPORT_RAG__RETRIEVE_K=30``; the file has TOML
sections, ``[rag]`` with ``retrieve_k = 30``. An unknown key is an error in both, because a
misspelt setting that is silently ignored is found out in production.
"""

from knowport.settings.load import (
    CONFIG_FILE,
    EffectiveSetting,
    effective_settings,
    load_settings,
    secrets_of,
)
from knowport.settings.root import Settings

__all__ = [
    "CONFIG_FILE",
    "EffectiveSetting",
    "Settings",
    "effective_settings",
    "load_settings",
    "secrets_of",
]
