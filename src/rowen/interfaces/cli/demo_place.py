"""Where a demo takes place: a data folder and a world of its own, so that nothing of the user's is touched."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rowen.errors import RefusedError
from rowen.interfaces.cli.invocation import Invocation

if TYPE_CHECKING:
    from rowen.operations import Rowen
    from rowen.settings import Settings

__all__ = ["demo_place", "demo_settings", "demo_world"]

_FIELD = "rowen-hill"


@contextmanager
def demo_place(call: Invocation, *, keep: bool) -> Iterator[tuple[Path, Path]]:
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


def demo_settings(call: Invocation, home: Path, **more: Any) -> "Settings":
    """Settings under which a demo does no harm: a database of its own, and no provider that costs anything."""
    # Only a database that was named for the demo is written to.
    url = call.settings.database_url if call.database_url else None
    loopback = {"allow_addresses": (IPv4Network("127.0.0.0/8"),), "host_delay_s": 0.0}
    free = {"embedder": "none" if call.settings.embedder == "none" else "local"}
    # Its folder is removed at the end, and so must be the server.
    ours = {"home": home, "database_url": url, "embedded_linger_s": 0.0}
    return call.settings.model_copy(update={**ours, **loopback, **free, **more})


@asynccontextmanager
async def demo_world(rowen: "Rowen", field: Path) -> AsyncIterator[None]:
    """The farm, its shop and the valley's portal, harvested, changed and looked at again; they stay for as long."""
    from rowen.interfaces.cli.demo_field import lay_out, next_day
    from rowen.interfaces.cli.demo_portal import DemoPortal, open_portal
    from rowen.interfaces.cli.demo_site import open_shop, overnight, set_up

    shop, portal = field.parent / "shop", DemoPortal()
    lay_out(field)
    set_up(shop)
    with open_shop(shop) as shop_address, open_portal(portal) as portal_address:
        await rowen.sources.add(str(field), name="farm", every="1h")
        await rowen.sources.add(shop_address, name="shop", every="1h")
        await rowen.sources.add(portal_address, name="valley", kind="ckan", every="1h")
        await rowen.runs.sync_all()
        next_day(field)
        overnight(shop)
        portal.let_a_week_pass()
        await rowen.runs.sync_all()
        yield
