"""Completions for a shell: names of sources, kinds, and options of kinds."""

import click

from rowen.errors import RowenError
from rowen.interfaces.cli.invocation import Invocation
from rowen.operations.validation import has_database, kinds, options_of


def source_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of sources; none if there is no database or it fails, since a shell shows no errors."""
    call = ctx.find_object(Invocation) or Invocation()
    call.quiet = True
    try:
        if not has_database(call.settings):
            return []
        sources = call.ask(lambda rowen: rowen.sources.list(counted=False))
    except (RowenError, OSError):
        return []
    return [source.name for source in sources if source.name.startswith(incomplete)]


def kind_names(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Return kinds of sources."""
    return [kind for kind in kinds() if kind.startswith(incomplete)]


def option_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the options of the kind on the command line; without a kind, the options of all kinds."""
    return [f"{name}=" for name in options_of(ctx.params.get("kind")) if name.startswith(incomplete)]
