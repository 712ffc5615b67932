"""What a shell offers for a word that is begun: names of sources, kinds, and their options."""

from typing import TYPE_CHECKING

import click

from rowen.errors import RowenError
from rowen.interfaces.cli.invocation import Invocation

if TYPE_CHECKING:
    from rowen.operations import Rowen

__all__ = ["kind_names", "option_names", "source_names"]


def source_names(ctx: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """The sources that are kept; none where there is no database, or it cannot be asked: a shell shows no errors."""
    from rowen.operations.validation import has_database

    call = ctx.find_object(Invocation) or Invocation()
    call.quiet = True
    try:
        names = call.ask(_names) if has_database(call.settings) else []
    except (RowenError, OSError):
        return []
    return [name for name in names if name.startswith(begun)]


async def _names(rowen: "Rowen") -> list[str]:
    return [source.name for source in await rowen.sources.list(counted=False)]


def kind_names(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    """The kinds of sources."""
    from rowen.operations.validation import kinds

    return [kind for kind in kinds() if kind.startswith(begun)]


def option_names(ctx: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """The options of the kind that was named, else those of all kinds."""
    from rowen.operations.validation import options_of

    return [f"{name}=" for name in options_of(ctx.params.get("kind")) if name.startswith(begun)]
