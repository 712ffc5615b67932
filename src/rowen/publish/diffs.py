"""Diffs for people: as HTML that needs no style sheet, and as plain text."""

from html import escape

from rowen.model.diff import DiffLine, DiffPiece, ItemDiff

__all__ = ["as_html", "as_text"]

_MARKS = {"same": " ", "removed": "-", "added": "+"}
_ELEMENTS = {"removed": "del", "added": "ins"}


def as_html(diff: ItemDiff) -> str:
    """What changed, as a fragment of HTML: lines in `pre`, words that differ in `del` and `ins`."""
    told = [_title(diff), _tags(diff)]
    told += ["<pre>" + "\n".join(_line(line) for line in hunk.lines) + "</pre>" for hunk in diff.hunks]
    return "\n".join(part for part in told if part)


def as_text(diff: ItemDiff) -> str:
    """What changed, as a unified diff without its line numbers."""
    return "\n…\n".join("\n".join(_MARKS[line.kind] + line.text for line in hunk.lines) for hunk in diff.hunks)


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
