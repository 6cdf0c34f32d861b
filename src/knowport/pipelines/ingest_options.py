"""How files become documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from knowport.core.filter_values import checked_filter
from knowport.core.identity import make_doc_id
from knowport.errors import InvalidInput
from knowport.pipelines.documents import Origin, checked_scope, checked_source


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """How files become documents, and which.

    ``source`` prefixes every document id. A category is the one given here, else the first
    folder below the root with ``category_from_folder``, else the front matter's; it is a part of
    the document, so an ingest with other category options changes documents. ``include`` and
    ``exclude`` are patterns as in ``.gitignore``. ``delete_missing`` deletes the documents of the
    source whose files are gone; ``force_delete`` also where that may be a mistake. ``other_root``
    is another folder that the source was ingested from, '' for none.
    """

    source: str
    kb_scope: str
    category: str | None = None
    category_from_folder: bool = False
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    force: bool = False
    delete_missing: bool = False
    force_delete: bool = False
    other_root: str = ""

    def checked(self) -> IngestOptions:
        """The options in the form that is stored. Raises InvalidInput."""
        if self.force_delete and not self.delete_missing:
            raise InvalidInput(
                "force_delete says how delete_missing is meant, and that is not asked for.",
                field="force_delete",
                remedy="Give both, or none.",
            )
        return replace(
            self,
            source=checked_source(self.source),
            kb_scope=checked_scope(self.kb_scope),
            category=checked_filter(self.category, field="category"),
        )

    def origin(self, path: str, root: str) -> Origin:
        """What is known of the document of the file at ``path`` before it is read; ``root`` ends
        with a separator. Raises InvalidInput for a name that cannot be a document id."""
        relative = path.removeprefix(root)
        folder, between, _ = relative.partition("/")
        return Origin(
            doc_id=make_doc_id(self.source, relative),
            source=self.source,
            kb_scope=self.kb_scope,
            name=Path(path).stem,
            category=self.category,
            other_category=folder if self.category_from_folder and between else None,
        )
