"""Commands on single items: get, diff, history."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from rowen.errors import UsageError
from rowen.interfaces.cli.command import command, options_of
from rowen.interfaces.cli.invocation import Invocation
from rowen.interfaces.cli.output import Output, fact_of
from rowen.model.datasets import DATASET
from rowen.model.wording import count, moment

if TYPE_CHECKING:
    from rowen.model.changes import FieldChange, ItemDiff
    from rowen.model.datasets import TwinGroup
    from rowen.model.items import Entry, Revision
    from rowen.operations import Rowen

_source = options_of("items.get", source={"help": "Source of the copy, if several have the item."})
_LINES = {"same": (" ", ""), "removed": ("-", "red"), "added": ("+", "green")}


@command("get")
@click.argument("url", metavar="URL|PATH")
@_source
def get(call: Invocation, url: str, source: str | None) -> None:
    """Print the text of one item as Markdown."""

    async def answer(rowen: Rowen) -> tuple[Entry, TwinGroup | None]:
        return await rowen.get(url, source=source), await rowen.items.duplicates(url, source=source)

    entry, group = call.ask(answer)
    others = [member for member in group.members if member.id != entry.id] if group else []
    if call.out.json:
        listed = [{"source": other.source, "url": other.url} for other in others]
        call.out.emit(entry, original=group.original.url if group else None, also_listed_by=listed)
        return
    files = entry.record.get("resources") if entry.media_type == DATASET else None
    if entry.media_type == DATASET:
        call.out.line(f"# {entry.title}\n")
    call.out.line(entry.text)
    for place, file in enumerate(file for file in files or () if isinstance(file, dict) and file.get("url")):
        if not place:
            call.out.line("\n## Files\n")
        form = f" ({file['format']})" if file.get("format") else ""
        call.out.line(f"- {file.get('name') or 'file'}{form}: {file['url']}")
    for remark in entry.remarks:
        call.out.say(remark)
    _say_withdrawn(call.out, entry)
    if group:
        listed_by = ", ".join(f"{other.source} ({other.url})" for other in others)
        original = "this one" if group.original.id == entry.id else f"that of {group.original.source}"
        call.out.say(f"Also listed by {listed_by}. The original is {original}.")


@command("diff")
@click.argument("url", metavar="URL|PATH")
@_source
@options_of(
    "items.diff",
    only=("older", "newer"),
    older={"flag": "--from", "help": "Older revision; default: the one before the newer."},
    newer={"flag": "--to", "type": click.IntRange(min=1), "help": "Newer revision; default: the last."},
)
@click.option("--html", is_flag=True, help="Print an HTML fragment with the differing words marked.")
@click.option("--fields", is_flag=True, help="Show the last change of its record instead, by field.")
@options_of(
    "items.compare_fields",
    only=("schema",),
    schema={"metavar": "NAME", "help": "Show the last change of its facts under this schema, by field."},
)
def diff(
    call: Invocation,
    url: str,
    source: str | None,
    older: int | None,
    newer: int | None,
    html: bool,
    fields: bool,
    schema: str | None,
) -> None:
    """Show changes between two revisions of an item: text, record or facts."""
    if fields or schema is not None:
        if older is not None or newer is not None:
            raise UsageError("--from and --to select texts; records and facts are compared with the previous ones.")
        _diff_fields(call, url, source, schema, html=html)
        return

    async def answer(rowen: Rowen) -> tuple[ItemDiff, str, Entry]:
        difference = await rowen.items.compare(url, source=source, older=older, newer=newer)
        text = await rowen.items.diff(
            url,
            source=source,
            older=difference.older,
            newer=difference.newer,
            form="html" if html else "unified",
        )
        return difference, text, await rowen.get(url, source=source)

    difference, text, entry = call.ask(answer)
    if call.out.json:
        call.out.emit(difference, url=url, diff=text, withdrawn_at=entry.withdrawn_at)
        return
    _say_withdrawn(call.out, entry)
    if call.out.terminal and not html:
        _draw_diff(call.out, difference)
    else:
        for line in text.splitlines():
            call.out.line(line)
    if not difference.older:
        call.out.say("This is its first revision: all of it is new.")
    elif not difference.hunks:
        call.out.say(f"Revisions {difference.older} and {difference.newer} have the same text; title or tags differ.")


def _diff_fields(call: Invocation, url: str, source: str | None, schema: str | None, *, html: bool) -> None:
    if html and not call.out.json:
        text = call.ask(lambda rowen: rowen.items.diff_fields(url, source=source, schema=schema, form="html"))
        for line in text.splitlines():
            call.out.line(line)
        return
    difference = call.ask(lambda rowen: rowen.items.compare_fields(url, source=source, schema=schema))
    if call.out.json:
        call.out.emit(difference)
        return
    older, newer = moment(difference.older_at), moment(difference.newer_at)
    call.out.line((f"{difference.of} of {older} → {newer}", "dim"))
    for change in difference.fields:
        _draw_field(call.out, change)


def _draw_diff(out: Output, difference: ItemDiff) -> None:
    out.line((f"revision {difference.older} → revision {difference.newer}", "dim"))
    for number, hunk in enumerate(difference.hunks):
        if number:
            out.line(("…", "dim"))
        for line in hunk.lines:
            mark, style = _LINES[line.kind]
            pieces = [(piece.text, f"{style} reverse" if piece.changed and style else style) for piece in line.pieces]
            out.line((mark, style), *(pieces if len(pieces) > 1 else [(line.text, style)]))


@command("history")
@click.argument("url", metavar="URL|PATH")
@_source
@options_of(
    "items.compare_fields",
    only=("schema",),
    schema={"metavar": "NAME", "help": "List its facts under this schema, with changes, instead."},
)
def history(call: Invocation, url: str, source: str | None, schema: str | None) -> None:
    """List all revisions of an item, or of its facts."""
    if schema is not None:
        for facts in call.ask(lambda rowen: rowen.extraction.history(url, schema, source=source)):
            by = facts.model or facts.origin
            checked = f", extracted again unchanged {count(facts.checks, 'time')}" if facts.checks else ""
            line = f"\t{moment(facts.at)}\t{facts.schema}\tby {by}{checked}"
            call.out.answer(facts, (f"version {facts.number}", "bold"), line)
            for change in facts.diff if not call.out.json else ():
                _draw_field(call.out, change)
        return

    async def answer(rowen: Rowen) -> tuple[Entry, list[Revision]]:
        return await rowen.get(url, source=source), await rowen.items.history(url, source=source)

    entry, revisions = call.ask(answer)
    call.out.listing(
        revisions,
        {
            "revision": lambda revision: str(revision.number),
            "since": lambda revision: moment(revision.at),
            "length": lambda revision: count(len(revision.text), "character"),
            "title": lambda revision: (revision.title, "bold"),
        },
        fact=lambda revision: {
            "url": url,
            **fact_of(revision),
            "current": revision is revisions[-1],
            "withdrawn_at": entry.withdrawn_at,
        },
    )
    _say_withdrawn(call.out, entry)
    if len(revisions) > 1:
        call.out.say(f"`rowen diff {url}` shows the last change.")


def _draw_field(out: Output, change: FieldChange) -> None:
    sign, style = {"added": ("+", "green"), "removed": ("-", "red")}.get(change.op, ("~", "yellow"))
    before = f"{_json(change.before)} → " if change.op == "changed" else ""
    value = _json(change.before if change.op == "removed" else change.after)
    out.line((f"  {sign} {change.path or '/'}", style), f"\t{before}{value}")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _say_withdrawn(out: Output, entry: Entry) -> None:
    if entry.withdrawn_at is not None:
        out.say(f"Deleted by {entry.source} on {moment(entry.withdrawn_at)}. This is its last copy.")


COMMANDS = {"get": get, "diff": diff, "history": history}
