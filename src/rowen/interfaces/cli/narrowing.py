"""Options that several commands narrow down by."""

import click

from rowen.model.datasets import RECORD_KINDS

__all__ = ["record_kinds_option"]

record_kinds_option = click.option(
    "--record-kind",
    "record_kinds",
    multiple=True,
    type=click.Choice(RECORD_KINDS),
    metavar="KIND",
    help=f"Only records of catalogs that describe this; may be repeated. One of: {', '.join(RECORD_KINDS)}.",
)
