"""A small site on loopback that changes between runs, and can misbehave in every way."""

import asyncio
import hashlib
import re
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from random import Random

from aiohttp import web

from rowen import Rowen, Run

WORDS = [
    *("barley", "clover", "hay", "meadow", "orchard", "pollen", "quince"),
    *("rowan", "seed", "thistle", "umbel", "vetch", "willow", "yarrow"),
]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Page:
    """One answer of the site. `validator` says what the server sends: etag, modified, both or none.

    `tells_again` says that its headers come with an answer 304 as well, as nginx does and Apache does not.
    """

    body: bytes = b""
    status: int = 200
    validator: str = "etag"
    modified: int = 1_700_000_000
    etag_salt: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    handler: Handler | None = None
    tells_again: bool = False

    @property
    def etag(self) -> str:
        return f'"{hashlib.sha256(self.body + self.etag_salt.encode()).hexdigest()[:16]}"'


@dataclass(frozen=True)
class Asked:
    """One line of the server's log."""

    path: str
    status: int
    conditional: bool
    sent_bytes: int
    headers: Mapping[str, str] = field(default_factory=dict)


def html(title: str, *paragraphs: str, links: tuple[str, ...] = (), head: str = "") -> bytes:
    """A page with a shell, as real ones have."""
    anchors = "".join(f'<li><a href="{link}">to {link}</a></li>' for link in links)
    text = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
    return (
        f"<!doctype html><html lang=en><head><title>{title}</title>{head}</head><body><nav>Site menu</nav>"
        f"<main><h1>{title}</h1>{text}<ul>{anchors}</ul></main><footer>Footer</footer></body></html>"
    ).encode()


class Site:
    """Pages by path, a log of what was asked, and a switch for outages."""

    def __init__(self) -> None:
        self.pages: dict[str, Page] = {}
        self.log: list[Asked] = []
        self.stuck: set[str] = set()
        self.stuck_how = "status 500"
        self.down = False
        self.at_once = self.most_at_once = 0
        self.default = Page(b"<html><title>Not found</title>Nothing here.</html>", status=404)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._runner = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()
        self.url = f"http://127.0.0.1:{self._port}"

    async def _start(self) -> web.AppRunner:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        place = web.TCPSite(runner, "127.0.0.1", 0)
        await place.start()
        self._port = runner.addresses[0][1]
        return runner

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        """Close the server, and the talks that still hang."""
        await self._runner.cleanup()
        hanging = asyncio.all_tasks() - {asyncio.current_task()}
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)

    def put(self, path: str, title: str, *paragraphs: str, links: tuple[str, ...] = (), **more: object) -> None:
        self.pages[path] = Page(html(title, *paragraphs, links=links), **more)  # type: ignore[arg-type]

    def alter(self, path: str, **more: object) -> None:
        self.pages[path] = replace(self.pages[path], **more)  # type: ignore[arg-type]

    def grow(self, count: int = 13) -> None:
        """A tree of pages: `/` leads to `/p1` and `/p2`, each `/pN` to the two that follow from it."""
        for number in range(count):
            words = f"{WORDS[number % len(WORDS)]} number {number}"
            self.put(
                f"/p{number}" if number else "/", f"Page {number}", f"All about {words}.", links=links_of(number, count)
            )

    def bodies(self) -> list[str]:
        """The paths of pages that were sent whole, sorted."""
        return sorted(self.asked(status=200))

    def asked(self, *, status: int | None = None) -> list[str]:
        """The paths of the log, robots.txt and the like left out."""
        extra = ("/robots.txt", "/sitemap.xml", "/llms.txt")
        return [a.path for a in self.log if a.path not in extra and status in (None, a.status)]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return await self._answer_for(request)
        finally:
            self.at_once -= 1

    async def _answer_for(self, request: web.Request) -> web.StreamResponse:
        path = request.path_qs
        page = self.pages.get(path, self.default)
        if self.down:
            page = Page(b"Down for maintenance.", status=503, validator="none")
        if page.handler is not None:
            response = await page.handler(request)
        else:
            response = self.stumbled(self._plain(request, page))
        conditional = "If-None-Match" in request.headers or "If-Modified-Since" in request.headers
        size = response.content_length or 0 if response.status != 304 else 0
        self.log.append(Asked(path, response.status, conditional, size, dict(request.headers)))
        return response

    def stumbled(self, response: web.Response) -> web.Response:
        """The answer, unless it names a record over which every answer fails that would hold it."""
        body = response.body if isinstance(response.body, bytes) else b""
        if not any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)".encode(), body) for name in self.stuck):
            return response
        match self.stuck_how:
            case "truncated":
                # Turtle that is cut behind a statement is a smaller document without an error.
                cut = body[: len(body) // 2].rstrip(b" .\r\n")
                return web.Response(body=cut, content_type=response.content_type)
            case "garbage":
                return web.Response(body=b"<html>Out of order</html>", content_type="text/html")
        return web.Response(status=int(self.stuck_how.removeprefix("status ")), text="Internal error")

    def _plain(self, request: web.Request, page: Page) -> web.Response:
        headers = {"Content-Type": "text/html; charset=utf-8", **page.headers}
        modified = formatdate(page.modified, usegmt=True)
        if page.status == 200 and page.validator in ("etag", "both"):
            headers["ETag"] = page.etag
        if page.status == 200 and page.validator in ("modified", "both"):
            headers["Last-Modified"] = modified
        if "ETag" in headers and request.headers.get("If-None-Match") == headers["ETag"]:
            again = page.headers if page.tells_again else {}
            return web.Response(status=304, headers={**again, "ETag": headers["ETag"]})
        if page.validator == "modified" and request.headers.get("If-Modified-Since") == headers.get("Last-Modified"):
            return web.Response(status=304)
        return web.Response(status=page.status, body=page.body, headers=headers)


async def keep(r: Rowen, site: Site, start: str = "/", **options: object) -> Run:
    """Crawl a site for the first time, without asking for the files that sites have beside their pages."""
    await r.sources.add(f"{site.url}{start}", name="site", options={"sitemap": False, "llms": False, **options})
    run = await r.sync("site")
    site.log.clear()
    return run


async def hang(_: web.Request) -> web.StreamResponse:
    """An answer that does not come."""
    await asyncio.Event().wait()
    raise AssertionError


def links_of(number: int, count: int = 13) -> tuple[str, ...]:
    """The links of a page in the tree that `grow` makes."""
    return tuple(f"/p{child}" for child in (2 * number + 1, 2 * number + 2) if child < count)


class ChangingSite(Site):
    """A site for the refresh-equals-rebuild machine: a random graph of pages with random troubles."""

    kind = "web"

    def __init__(self) -> None:
        super().__init__()
        self.address = self.url + "/"
        self.version = 1
        self.fault: str | None = None
        self.ailing: dict[str, tuple[Page, Page]] = {}
        self.put("/", "Home", "Welcome.", links=("/p0", "/p1"))
        for number in range(4):
            self._write(Random(number), number)

    def _write(self, chance: Random, number: int) -> None:
        links = tuple(chance.choice(["", self.url]) + self._any(chance) for _ in range(chance.randrange(5)))
        text = [" ".join(chance.choices(WORDS, k=chance.randrange(3, 60))) + "." for _ in range(chance.randrange(5))]
        validator = chance.choice(["etag", "etag", "modified", "both", "none"])
        modified = 1_700_000_000 + chance.randrange(10**6)
        text.insert(0, f"Version {self.version} of this site.")
        self.put(f"/p{number}", chance.choice(WORDS), *text, links=links, validator=validator, modified=modified)

    def _any(self, chance: Random) -> str:
        """Some page, now and then by one of its other names."""
        return f"/p{chance.randrange(14)}" + chance.choice(["", "", "", "", "/index.html", "?x=1", "?utm_source=mail"])

    def change(self, chance: Random) -> None:
        number = chance.randrange(14)
        path = f"/p{number}"
        self.fault = None
        match chance.randrange(16):
            case 15:
                self.fault = chance.choice(["deployment", "portal", "login"])
            case 12:
                self._release()
            case 0 | 1 | 2:
                self._write(chance, number)
            case 3:
                self.put(
                    "/", "Home", *chance.sample(WORDS, 2), links=tuple(f"/p{chance.randrange(14)}" for _ in range(4))
                )
            case 4:
                self.pages.pop(path, None)
            case 5:
                self.pages[path] = Page(
                    status=chance.choice([301, 302, 308]), headers={"Location": f"/p{chance.randrange(14)}"}
                )
            case 6:
                self.pages[path] = Page(b"broken", status=chance.choice([500, 503, 403]), headers={"X-Broken": "1"})
            case 7:
                self.pages[path] = Page(status=410)
            case 8 if path in self.pages:
                self.alter(path, etag_salt=str(chance.random()))
            case 9:
                head = chance.choice(["<meta name=robots content=noindex>", f'<link rel=canonical href="{path}?x=1">'])
                self.pages[path] = Page(html("Odd", "Something odd.", links=(f"/p{chance.randrange(14)}",), head=head))
            case 10:
                self.pages[path] = Page(b"GIF89a", headers={"Content-Type": "image/gif"})
            case 11:
                twin = self.pages.get(path, Page(html("Index", "An index.")))
                self.pages[chance.choice([f"{path}/index.html", f"{path}?x=1"])] = twin
                if chance.random() < 0.5:
                    self._write(chance, number)
            case 13 | 14 if path in self.pages and self.pages[path].status == 200:
                header = chance.choice(
                    [("X-Robots-Tag", "noindex"), ("X-Robots-Tag", "nofollow"), ("X-Robots-Tag", "all")]
                )
                header = chance.choice([header, ("Content-Type", "text/html"), ("Content-Type", "text/markdown")])
                self._tell(path, *header)

    def ail(self, chance: Random) -> None:
        self.fault = None
        number = chance.randrange(14)
        path = f"/p{number}"
        home = self.pages["/"]
        self.pages["/"] = replace(
            home, body=home.body.replace(b"<ul>", f'<ul><li><a href="{path}">on</a></li>'.encode())
        )
        if path not in self.pages or path in self.ailing or chance.random() < 0.6:
            self._write(chance, number)
        broken = Page(b"broken", status=chance.choice([500, 503, 403]))
        self.ailing[path] = self.pages[path], broken
        self.pages[path] = broken

    def recover(self) -> None:
        for path, (whole, broken) in self.ailing.items():
            if self.pages.get(path) is broken:
                self.pages[path] = whole
        self.ailing.clear()

    async def _answer_for(self, request: web.Request) -> web.StreamResponse:
        """Answer as ever, unless all of the site is broken, until it changes again."""
        match self.fault:
            case "deployment" if request.path != "/":
                return web.Response(status=404)
            case "portal":
                token = {"ETag": f'"{len(self.log)}"'}
                return web.Response(body=html("Portal", "Please pay."), content_type="text/html", headers=token)
            case "login" if request.path not in ("/", "/robots.txt", "/welcome"):
                return web.Response(status=302, headers={"Location": f"/welcome?from={request.path}"})
        return await super()._answer_for(request)

    def _tell(self, path: str, name: str, value: str) -> None:
        """Send a page with another header, and say that it has changed."""
        page = self.pages[path]
        salt, modified = page.etag_salt + value, page.modified + 1
        self.alter(path, headers={**page.headers, name: value}, etag_salt=salt, modified=modified)

    def _release(self) -> None:
        """A new version in the shell of every page."""
        old, self.version = self.version, self.version + 1
        before, after = f"Version {old} of this site.", f"Version {self.version} of this site."
        for path, page in self.pages.items():
            body = page.body.replace(before.encode(), after.encode())
            self.pages[path] = replace(page, body=body, modified=page.modified + 1)

    def _goes_in_a_circle(self, path: str) -> bool:
        seen = set()
        while (page := self.pages.get(path)) and (to := page.headers.get("Location")):
            if path in seen:
                return True
            seen.add(path)
            path = to
        return False

    def heal(self) -> None:
        self.down = False
        self.fault = None
        self.recover()
        for path, page in list(self.pages.items()):
            if "X-Broken" in page.headers or self._goes_in_a_circle(path):
                self.put(path, "Healed", f"This was {path}.", links=("/p3",))
