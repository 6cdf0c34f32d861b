"""The one composition root: it chooses adapters and hands them to the pipelines."""

from knowport.bootstrap.composition import Composition

__all__ = ["Composition"]
