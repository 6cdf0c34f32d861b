"""Knowport: the knowledge service behind your AI agents."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from knowport.errors import KnowportError
    from knowport.knowledge_base import KnowledgeBase
    from knowport.model import Answer, Evidence, LookupResult
    from knowport.settings import Settings, load_settings

__all__ = [
    "Answer",
    "Evidence",
    "KnowledgeBase",
    "KnowportError",
    "LookupResult",
    "Settings",
    "load_settings",
]

_HOMES = {
    "KnowledgeBase": "knowport.knowledge_base",
    "KnowportError": "knowport.errors",
    "Settings": "knowport.settings",
    "load_settings": "knowport.settings",
}


def __getattr__(name: str) -> Any:
    """Loaded when first asked for: the engine's client takes longer to import than all the rest."""
    if name not in __all__:
        raise AttributeError(f"module 'knowport' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES.get(name, "knowport.model")), name)
