"""circuits: services that are not called at the moment."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from rowen.interfaces.cli.command import command, listing_group
from rowen.interfaces.cli.invocation import Invocation
from rowen.interfaces.cli.output import Piece
from rowen.model.wording import age, count, moment, seconds

if TYPE_CHECKING:
    from rowen.model.status import CircuitStatus

__all__ = ["COMMANDS"]

_STYLES = {"closed": "green", "half-open": "yellow", "open": "bold red"}


@listing_group("circuits")
def circuits(call: Invocation) -> None:
    """List services that are not called since they failed too often; reset them."""
    found = call.ask(lambda rowen: rowen.circuits.list())
    now = datetime.now(UTC)
    call.out.listing(
        found,
        {
            "kind": lambda one: one.kind,
            "circuit": lambda one: (one.name, "bold"),
            "state": _state,
            "failures": lambda one: str(one.failures),
            "since": lambda one: age(one.opened_at, now) if call.out.terminal else moment(one.opened_at),
            "next probe": lambda one: _probe(one, now) if call.out.terminal else moment(one.probe_at),
            "process": lambda one: one.process or "",
        },
    )
    if all(one.state == "closed" for one in found):
        call.out.say("All circuits are closed: every service is called.")


def _state(one: "CircuitStatus") -> Piece:
    return one.state, _STYLES[one.state]


def _probe(one: "CircuitStatus", now: datetime) -> str:
    if one.probe_at is None:
        return ""
    return f"in {seconds((one.probe_at - now).total_seconds())}" if one.probe_at > now else "with the next call"


@command("reset")
@click.argument("name", required=False)
@click.option("--all", "everything", is_flag=True, help="Reset every circuit.")
def reset(call: Invocation, name: str | None, everything: bool) -> None:
    """Close a circuit in every process, so that its service is called again; jobs that wait for one begin."""
    if (name is None) is not everything:
        raise click.UsageError("Name a circuit, or give --all.")
    found = call.ask(lambda rowen: rowen.circuits.reset(name))
    from rowen.operations.facts import fact

    names = ", ".join(sorted({one.name for one in found}))
    told = f"{count(len(found), 'circuit')} reset" + (f": {names}" if names else ", since none is open")
    call.out.answer({"reset": [fact(one) for one in found]}, f"{told}.")


circuits.add_command(reset)

COMMANDS = {"circuits": circuits}
