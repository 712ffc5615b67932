"""Diffs for people: as HTML that needs no style sheet, and as plain text."""

import json
from html import escape

from rowen.model.changes import DiffLine, DiffPiece, FieldChange, FieldDiff, ItemDiff

__all__ = ["as_html", "as_text", "fields_as_html", "fields_as_text"]

_MARKS = {"same": " ", "removed": "-", "added": "+"}
_FIELD_MARKS = {"added": "+", "removed": "-", "changed": "~"}
_ELEMENTS = {"removed": "del", "added": "ins"}


def as_html(diff: ItemDiff) -> str:
    """What changed, as a fragment of HTML: lines in `pre`, words that differ in `del` and `ins`."""
    told = [_title(diff), _tags(diff)]
    told += ["<pre>" + "\n".join(_line(line) for line in hunk.lines) + "</pre>" for hunk in diff.hunks]
    return "\n".join(part for part in told if part)


def as_text(diff: ItemDiff) -> str:
    """What changed, as a unified diff without its line numbers."""
    return "\n…\n".join("\n".join(_MARKS[line.kind] + line.text for line in hunk.lines) for hunk in diff.hunks)


def fields_as_html(diff: FieldDiff) -> str:
    """What changed field by field, as a table in HTML: the pointer, what went and what came."""
    rows = [f"<tr><th>{escape(one.path or '/')}</th><td>{_values_html(one)}</td></tr>" for one in diff.fields]
    return "\n".join(["<table>", *rows, "</table>"]) if rows else ""


def fields_as_text(diff: FieldDiff) -> str:
    """The same, one line a field."""
    return "\n".join(f"{_FIELD_MARKS[one.op]} {one.path or '/'}\t{' → '.join(_values(one))}" for one in diff.fields)


def _values(change: FieldChange) -> list[str]:
    before = [] if change.op == "added" else [json.dumps(change.before, ensure_ascii=False)]
    return before if change.op == "removed" else [*before, json.dumps(change.after, ensure_ascii=False)]


def _values_html(change: FieldChange) -> str:
    elements = {"added": ["ins"], "removed": ["del"], "changed": ["del", "ins"]}[change.op]
    told = zip(elements, _values(change), strict=True)
    return " ".join(f"<{element}>{escape(value)}</{element}>" for element, value in told)


def _title(diff: ItemDiff) -> str:
    before, after = diff.title
    if before == after:
        return ""
    gone = f"<del>{escape(before)}</del> " if before else ""
    return f"<p>{gone}<ins>{escape(after)}</ins></p>"


def _tags(diff: ItemDiff) -> str:
    told = [f"<del>{escape(tag)}</del>" for tag in diff.tags_removed]
    told += [f"<ins>{escape(tag)}</ins>" for tag in diff.tags_added]
    return f"<p>{' '.join(told)}</p>" if told else ""


def _line(line: DiffLine) -> str:
    element = _ELEMENTS.get(line.kind)
    return _MARKS[line.kind] + "".join(_piece(piece, element) for piece in line.pieces)


def _piece(piece: DiffPiece, element: str | None) -> str:
    text = escape(piece.text)
    return f"<{element}>{text}</{element}>" if piece.changed and element else text
