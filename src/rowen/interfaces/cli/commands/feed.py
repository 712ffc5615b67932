"""feed: what others can follow or harvest, on stdout."""

import sys
from typing import TYPE_CHECKING, Any, get_args

import click

from rowen.interfaces.cli.command import command
from rowen.interfaces.cli.completing import source_names
from rowen.interfaces.cli.invocation import Invocation
from rowen.model.changes import ChangeKind

if TYPE_CHECKING:
    from rowen.model.changes import Publication
    from rowen.operations import Rowen

__all__ = ["COMMANDS"]

_FORMS = ("atom", "json", "ldes", "dcat", "datajson")
# Which options mean something for which form.
_NEWS = {"query", "kinds", "field", "before"}
_OPTIONS = {"atom": _NEWS, "json": _NEWS, "ldes": {"page"}, "dcat": {"after"}}


@command("feed")
@click.argument("form", metavar="FORM", type=click.Choice(_FORMS))
@click.option("--source", metavar="NAME", shell_complete=source_names, help="Only of this source.")
@click.option("--query", metavar="WORDS", help="Atom and JSON Feed: only changes of items that have these words.")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(get_args(ChangeKind)),
    metavar="KIND",
    help="Atom and JSON Feed: only changes of this kind, such as created or deleted; may be repeated.",
)
@click.option("--field", metavar="NAME", help="Atom and JSON Feed: only changes in which this field of facts differs.")
@click.option(
    "--before", type=click.IntRange(min=1), metavar="N", help="Atom and JSON Feed: what came before a number."
)
@click.option("--page", metavar="NODE", help="LDES: a page of the stream, such as blocks/0 or pages/17.")
@click.option("--after", metavar="PLACE", help="DCAT: the page that the one before names as the next.")
def feed(call: Invocation, form: str, source: str | None, **how: Any) -> None:
    """Write the change log as a feed, or all datasets as a catalog.

    atom and json are feeds for readers of news, ldes is an event stream that programs can copy and follow, dcat and
    datajson are catalogs of all datasets. `ROWEN_PUBLIC_URL` is the address that they name.
    """
    given = {name: value for name, value in how.items() if value not in (None, ())}
    if strange := sorted(set(given) - _OPTIONS.get(form, set())):
        raise click.UsageError(f"--{strange[0].removesuffix('s')} says nothing about {form}.")
    call.ask(lambda rowen: _write(rowen, form, source, given))


async def _write(rowen: "Rowen", form: str, source: str | None, given: dict[str, Any]) -> None:
    if form == "datajson":
        async for piece in rowen.feeds.data_json(source=source):
            sys.stdout.buffer.write(piece)
    else:
        sys.stdout.buffer.write((await _made(rowen, form, source, given)).body)
    sys.stdout.buffer.flush()


async def _made(rowen: "Rowen", form: str, source: str | None, given: dict[str, Any]) -> "Publication":
    match form:
        case "atom" | "json":
            return await rowen.feeds.feed(form, source=source, **given)
        case "ldes":
            return await rowen.feeds.event_stream(given.get("page", ""), source=source)
    return await rowen.feeds.catalog(source=source, after=given.get("after"))


COMMANDS = {"feed": feed}
