"""What changed field by field: in records, and in extracted facts."""

from rowen.errors import NotFoundError
from rowen.harvest.engine import Engine
from rowen.model.changes import DiffForm, FieldDiff, differences
from rowen.operations.extractions import Extractions
from rowen.operations.items import Items
from rowen.publish.diffs import fields_as_html, fields_as_text
from rowen.store import library

__all__ = ["FieldDiffs"]


class FieldDiffs:
    """Diffs by field."""

    def __init__(self, engine: Engine, items: Items, extractions: Extractions) -> None:
        self._database = engine.database
        self._items = items
        self._extractions = extractions

    async def compare(self, url: str, *, source: str | None = None, schema: str | None = None) -> FieldDiff:
        """What the last change of an item's record changed, or that of the facts that it yields under a schema."""
        if schema is not None:
            return await self._facts(url, schema, source)
        entry = await self._items.get(url, source=source)
        async with self._database.connection() as c:
            before = await library.superseded_record(c, entry.id) if entry.withdrawn_at is None else None
        if before is None:
            raise NotFoundError(
                f"No earlier record of {url!r} is kept: it did not change since it was first read, or too long ago."
            )
        record, at = before
        changed = tuple(differences(dict(record), dict(entry.record)))
        return FieldDiff(entry.url, entry.source, "record", at, entry.updated_at, changed)

    async def diff(
        self, url: str, *, source: str | None = None, schema: str | None = None, form: DiffForm = "unified"
    ) -> str:
        """The same as text, one line a field, or as HTML."""
        found = await self.compare(url, source=source, schema=schema)
        return fields_as_html(found) if form == "html" else fields_as_text(found)

    async def _facts(self, url: str, schema: str, source: str | None) -> FieldDiff:
        versions = await self._extractions.history(url, schema, source=source)
        last, earlier = versions[-1], versions[-2].at if len(versions) > 1 else None
        return FieldDiff(last.url, last.source, last.schema, earlier, last.at, last.diff)
