"""A small feed on loopback, in any format, which shows a window of its entries, has archives, lies and fails."""

import json
from dataclasses import dataclass, replace
from html import escape
from random import Random

from aiohttp import web

from tests.portals.site import WORDS, Page, Site

FORMATS = ("rss", "atom", "json", "rss1")


@dataclass(frozen=True)
class Post:
    """One version of an entry; `spoil` stands in the middle of it as it is."""

    name: str
    title: str
    text: str
    minute: int
    spoil: str = ""


def at(minute: int) -> str:
    """A moment of the feed's own time."""
    return f"2024-{1 + minute // 40000:02}-{1 + minute // 1440 % 27:02}T{minute // 60 % 24:02}:{minute % 60:02}:00Z"


class FeedSite(Site):
    """Entries, newest first, of which `window` are shown; `archive` closes older ones into documents of that size."""

    def __init__(self) -> None:
        super().__init__()
        self.address = f"feed:{self.url}/feed"
        self.posts: list[Post] = []
        self.archives: list[list[Post | str]] = []
        self.deleted: list[str] = []
        self.window = 10
        self.format = "rss"
        self.paged = False
        self.hub: str | None = None
        self.validator = "etag"
        self.minute = 0
        self.body: bytes | None = None
        self.cut_bytes = 0

    def make(self, name: str, title: str = "", text: str = "") -> Post:
        """Publish an entry, or another version of it."""
        self.minute += 1
        post = Post(name, title or f"Entry {name}", text or f"All about <b>{name}</b>.", self.minute)
        self.posts = [post, *(one for one in self.posts if one.name != name)]
        return post

    def fill(self, count: int) -> None:
        """Publish so many entries."""
        for number in range(count):
            self.make(f"e{number}")

    def entry_url(self, name: str) -> str:
        """The URL of the item that an entry becomes."""
        return f"{self.url}/posts/{name}"

    @property
    def shown(self) -> list[Post]:
        """The entries in the window."""
        return self.posts[: self.window]

    def _document(self, posts: list[Post | str], *, older: str | None = None, following: str | None = None) -> bytes:
        links = {"prev-archive": older, "next": following, "hub": self.hub}
        told = {rel: href for rel, href in links.items() if href}
        body = getattr(self, f"_{self.format}")(posts, told).encode("utf-8", "surrogatepass")
        return body[: len(body) - self.cut_bytes]

    def _rss(self, posts: list[Post | str], links: dict[str, str]) -> str:
        items = "".join(
            f"<item><guid>{self.entry_url(p.name)}</guid><link>/posts/{p.name}</link><title>{escape(p.title)}</title>"
            f"<description>{escape(p.text)}</description><atom:updated>{at(p.minute)}</atom:updated>{p.spoil}"
            f"<category>hay</category></item>"
            for p in posts
            if isinstance(p, Post)
        )
        told = "".join(f'<atom:link rel="{rel}" href="{escape(href)}"/>' for rel, href in links.items())
        return (
            '<?xml version="1.0"?><rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel>'
            f"<title>Farm</title>{told}<language>en</language>{items}</channel></rss>"
        )

    def _rss1(self, posts: list[Post | str], links: dict[str, str]) -> str:
        items = "".join(
            f'<item rdf:about="{self.entry_url(p.name)}"><title>{escape(p.title)}</title>'
            f"<link>{self.entry_url(p.name)}</link><description>{escape(p.text)}</description>"
            f"<dc:date>{at(p.minute)}</dc:date>{p.spoil}<dc:subject>hay</dc:subject></item>"
            for p in posts
            if isinstance(p, Post)
        )
        return (
            '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/" '
            f'xmlns:dc="http://purl.org/dc/elements/1.1/"><channel><title>Farm</title></channel>{items}</rdf:RDF>'
        )

    def _atom(self, posts: list[Post | str], links: dict[str, str]) -> str:
        told = "".join(f'<link rel="{rel}" href="{escape(href)}"/>' for rel, href in links.items())
        entries = "".join(self._atom_entry(post) for post in posts)
        return (
            '<feed xmlns="http://www.w3.org/2005/Atom" xmlns:at="http://purl.org/atompub/tombstones/1.0" '
            f'xml:lang="en"><title>Farm</title>{told}{entries}</feed>'
        )

    def _atom_entry(self, post: Post | str) -> str:
        if isinstance(post, str):
            name, _, minute = post.partition("@")
            return f'<at:deleted-entry ref="{self.entry_url(name)}" when="{at(int(minute))}"/>'
        return (
            f"<entry><id>{self.entry_url(post.name)}</id><title>{escape(post.title)}</title>"
            f'<link href="/posts/{post.name}"/><updated>{at(post.minute)}</updated>{post.spoil}'
            f'<content type="html">{escape(post.text)}</content><category term="hay"/></entry>'
        )

    def _json(self, posts: list[Post | str], links: dict[str, str]) -> str:
        items = [
            {
                "id": self.entry_url(p.name),
                "url": f"/posts/{p.name}",
                "title": p.title,
                "content_html": p.text,
                "date_modified": at(p.minute),
                "tags": ["hay"],
            }
            for p in posts
            if isinstance(p, Post)
        ]
        more = {"next_url": links["next"]} if "next" in links else {}
        if "hub" in links:
            more["hubs"] = [{"type": "WebSub", "url": links["hub"]}]  # type: ignore[assignment]
        return json.dumps({"version": "https://jsonfeed.org/version/1.1", "title": "Farm", "items": items, **more})

    async def _answer_for(self, request: web.Request) -> web.StreamResponse:
        if request.path in ("/feed", "/news"):
            self.pages[request.path_qs] = self._feed(int(request.query.get("page", 0)))
        elif request.path.startswith("/archive/"):
            number = int(request.path.rpartition("/")[2])
            older = f"/archive/{number - 1}" if number else None
            body = self._document(self.archives[number], older=older) if number < len(self.archives) else b""
            self.pages[request.path_qs] = Page(body, headers={"Content-Type": "application/xml"})
        return await super()._answer_for(request)

    def _feed(self, page: int) -> Page:
        start = page * self.window
        posts: list[Post | str] = [*self.posts[start : start + self.window], *self.deleted]
        older = f"/archive/{len(self.archives) - 1}" if self.archives else None
        has_more = self.paged and len(self.posts) > start + self.window
        body = self._document(posts, older=older, following=f"/feed?page={page + 1}" if has_more else None)
        kind = "application/json" if self.format == "json" else "application/xml; charset=utf-8"
        return Page(body if self.body is None else self.body, validator=self.validator, headers={"Content-Type": kind})


class ChangingFeed(FeedSite):
    """A feed for the machine: a window, nothing else. `ever` are the entries that it has shown so far."""

    kind = "feed"

    def __init__(self) -> None:
        super().__init__()
        self.window = 5
        self.ever: set[str] = set()
        for number in range(7):
            self.make(f"n{number}")

    def make(self, name: str, title: str = "", text: str = "") -> Post:
        post = super().make(name, title, text)
        self.ever.add(self.entry_url(name))
        return post

    def change(self, chance: Random) -> None:
        self._calm()
        name = f"n{chance.randrange(16)}"
        match chance.randrange(11):
            case 0 | 1 | 2:
                text = " ".join(chance.choices(WORDS, k=chance.randrange(3, 40)))
                self.make(name, chance.choice([*WORDS, "<i>hay</i> & straw"]), f"<p>{text}</p>")
            case 3 if self.shown:
                # Edited without a word of it: no new date, the same place.
                at_place = chance.randrange(len(self.shown))
                self.posts[at_place] = replace(self.posts[at_place], text=chance.choice(WORDS))
            case 4:
                self.posts = [post for post in self.posts if post.name != name]
            case 5:
                self.format = chance.choice(FORMATS)
            case 6:
                self.window = chance.choice([1, 3, 5, 9])
            case 7:
                self.validator = chance.choice(["etag", "modified", "both", "none"])
            case 8:
                self.cut_bytes = chance.choice([0, 1, 40, 700])
            case 9:
                self.body = chance.choice([b"<html>Maintenance</html>", b"<rss><channel>", b"{}", b"", b"<a/>"])
            case 10:
                self.down = True

    def _calm(self) -> None:
        self.body, self.cut_bytes, self.down = None, 0, False
        if self.validator == "modified":
            # Such a validator has seconds; what changes within one goes unnoticed by any client.
            self.validator = "etag"

    def ail(self, chance: Random) -> None:
        self._calm()
        self.format = chance.choice(["rss", "atom", "rss1"])
        if not self.shown:
            self.make("n0")
        place = chance.randrange(len(self.shown))
        self.posts[place] = replace(self.posts[place], spoil="<b>torn</i>")

    def recover(self) -> None:
        self.posts = [replace(post, spoil="") for post in self.posts]

    def heal(self) -> None:
        self._calm()
        self.recover()


class ChangingArchivedFeed(ChangingFeed):
    """A feed in Atom whose entries all are there: in its window, or in archives that never change."""

    def __init__(self) -> None:
        super().__init__()
        self.format = "atom"
        self.window = 3
        self._close()

    def make(self, name: str, title: str = "", text: str = "") -> Post:
        post = super().make(name, title, text)
        self.deleted = [one for one in self.deleted if not one.startswith(f"{name}@")]
        self._close()
        return post

    def _close(self) -> None:
        while len(self.posts) + len(self.deleted) > self.window + 3:
            rest: list[Post | str] = [*self.posts[-3:]]
            self.posts = self.posts[:-3]
            self.archives.append([*rest, *self.deleted])
            self.deleted = []

    @property
    def shown(self) -> list[Post]:
        return self.posts

    def _feed(self, page: int) -> Page:
        self.window = 100
        try:
            return super()._feed(0)
        finally:
            self.window = 3

    def change(self, chance: Random) -> None:
        self._calm()
        name = f"n{chance.randrange(16)}"
        match chance.randrange(8):
            case 0 | 1 | 2 | 3:
                self.make(name, chance.choice(WORDS), f"<p>{' '.join(chance.choices(WORDS, k=9))}</p>")
            case 4:
                self.minute += 1
                self.posts = [post for post in self.posts if post.name != name]
                self.deleted = [
                    *(one for one in self.deleted if not one.startswith(f"{name}@")),
                    f"{name}@{self.minute}",
                ]
                self._close()
            case 5:
                self.validator = chance.choice(["etag", "both", "none"])
            case 6:
                self.cut_bytes = chance.choice([0, 1, 40, 700])
            case 7:
                self.down = True

    def ail(self, chance: Random) -> None:
        super().ail(chance)
        self.format = "atom"

    def stick(self, chance: Random) -> None:
        """Let every document fail that would hold some entries."""
        self._calm()
        self.stuck = set(chance.sample([f"n{number}" for number in range(16)], chance.choice([1, 1, 2])))
        self.stuck_how = chance.choice(["status 500", "status 500", "garbage", "truncated"])

    def recover(self) -> None:
        super().recover()
        self.stuck = set()
