"""demo."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rowen.cli.command import command
from rowen.cli.invocation import Invocation
from rowen.errors import RefusedError
from rowen.model.wording import seconds

if TYPE_CHECKING:
    from rowen.service import Rowen

__all__ = ["COMMANDS"]

_FIELD = "rowen-hill"


@command("demo")
@click.option("--keep", is_flag=True, help="Leave the demo's folder and database behind.")
def demo(call: Invocation, keep: bool) -> None:
    """See the whole thing at work on a small world, offline."""
    from rowen.cli.event_loop import ask

    started = time.monotonic()
    if not call.json:
        call.out.line("Welcome. First a database of its own, so that nothing of yours is touched ...")
    with _place(call, keep=keep) as (home, field):
        # A demo never writes into the database that the settings name, unless it was named for the demo.
        url = call.settings.database_url if call.database_url else None
        loopback = {"allow_addresses": (IPv4Network("127.0.0.0/8"),), "host_delay_s": 0.0}
        # Nor does it spend anything at a provider.
        free = {"embedder": "none" if call.settings.embedder == "none" else "local"}
        # Its folder is removed at the end, and so must be the server.
        ours = {"home": home, "database_url": url, "embedded_linger_s": 0.0}
        settings = call.settings.model_copy(update={**ours, **loopback, **free})

        async def asked(rowen: "Rowen") -> None:
            from rowen.cli.demo_story import Story

            await Story(rowen, call.out, field).tell()

        ask(settings, asked)
    if not call.json:
        _farewell(call, time.monotonic() - started)


@contextmanager
def _place(call: Invocation, *, keep: bool) -> Iterator[tuple[Path, Path]]:
    """The demo's data folder and its world. A folder that was named by the user is never removed."""
    if call.home is not None:
        field = call.home / _FIELD
        if field.exists():
            raise RefusedError(f"There was a demo in {call.home} before.", hint="Choose another --home, or none.")
        yield call.home, field
        return
    folder = Path(tempfile.mkdtemp(prefix="rowen-demo-"))
    # Root lends the server another account, which has to pass through here.
    folder.chmod(0o755)
    try:
        yield folder / "home", folder / _FIELD
    finally:
        if keep:
            call.out.say(f"Kept: `rowen --home {folder / 'home'} search goat` looks into it.")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _farewell(call: Invocation, elapsed_s: float) -> None:
    call.out.line()
    call.out.line(f"That was all, in {seconds(elapsed_s)}. Now with something of yours:")
    for line in (
        ("   rowen sync ./folder       ", "read a folder; again whenever you like, it costs what changed"),
        ('   rowen search "words"      ', "find it"),
        ("   rowen changes --follow    ", "watch what changes"),
        ("   rowen status              ", "see how all of it is doing"),
    ):
        call.out.line((line[0], "bold"), (line[1], "dim"))


COMMANDS = {"demo": demo}
