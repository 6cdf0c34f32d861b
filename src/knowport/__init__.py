"""Knowport: the knowledge service behind your AI agents."""

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
