"""A council's site on loopback: pages with RDFa, and the event stream that announces them."""

from dataclasses import dataclass
from random import Random

from tests.portals.ldes import LdesSite, Leaf
from tests.portals.site import WORDS, Page

TYPES = {
    "minutes": "8e791b27-7600-4577-b24e-c7c29e0eb773",
    "agenda": "13fefad6-a9d6-4025-83b5-e4cbee3a8965",
    "decision list": "3fa67785-ffdc-4b30-8880-2b99d97b4dee",
    "extract": "9d5bfaca-bbf2-49dd-a830-769f91a6377b",
}
PREFIXES = (
    "besluit: http://data.vlaanderen.be/ns/besluit# eli: http://data.europa.eu/eli/ontology# "
    "lblod: http://lblod.data.gift/vocabularies/besluit/ type: https://data.vlaanderen.be/id/concept/BesluitDocumentType/"
)
ELI_TITLE = "http://data.europa.eu/eli/ontology#title"


@dataclass(frozen=True)
class Paper:
    """A document of the council: what it states, and where it leads."""

    title: str = "A decision"
    kind: str = "decision list"
    links: tuple[str, ...] = ()
    about: str = ""

    def html(self, path: str) -> bytes:
        """The page; one of no kind is an overview."""
        resource = self.about or f"http://data.example/id{path}"
        kind = f'typeof="foaf:Document type:{TYPES[self.kind]}"' if self.kind else ""
        links = "".join(
            f'<a property="besluit:heeftUittreksel" resource="http://data.example/id{link}" href="{link}">more</a>'
            for link in self.links
        )
        return (
            f'<!doctype html><html lang="nl"><head><title>{self.title}</title></head><body prefix="{PREFIXES}"><main>'
            f'<div resource="{resource}" {kind}><h1 property="eli:title">{self.title}</h1>'
            f"<p>All about {self.title}.</p>{links}</div></main></body></html>"
        ).encode()


class CouncilSite(LdesSite):
    """Papers by path, each announced by the stream at `/root`."""

    def __init__(self) -> None:
        super().__init__()
        self.feed = self.address
        self.documents = f"announced:{self.url}/root"
        self.leaves = {"/root": Leaf()}

    def put_paper(self, path: str, paper: Paper) -> None:
        """Put a page onto the site, and say nothing of it."""
        self.pages[path] = Page(paper.html(path))

    def publish(self, path: str, paper: Paper | None = None, *, location: str | None = None) -> None:
        """Announce a page, with what it says from now on."""
        if paper is not None:
            self.put_paper(path, paper)
        at = f"prov:atLocation <{location or self.url + path}> ;"
        self.leaves["/root"].events.append(self.event(path[1:], f"Publication of {path}", more=at))

    def withdraw(self, path: str) -> None:
        """Say that a page is no more."""
        self.leaves["/root"].events.append(self.event(path[1:], deletes=True))

    def visited(self) -> list[str]:
        """The pages that were asked for since the log was cleared."""
        return [asked.path for asked in self.log if asked.path not in (*self.leaves, "/robots.txt")]


class ChangingCouncil(CouncilSite):
    """A council for the machine. It announces each change of a paper, as publishers have to.

    `/p0` is always there, so that there is something to be seen. Of papers that nobody announces, and of overviews,
    only what leads to them changes.
    """

    kind = "announced"

    def __init__(self) -> None:
        super().__init__()
        self.address = self.documents
        self.papers: dict[str, Paper] = {}
        self.broken: set[str] = set()
        for number in range(4):
            self.put_paper(f"/below{number}", Paper(f"Below {number}", "extract"))
        self._issue("/p0", Paper("The first"))
        self._issue("/overview", Paper("All", "", links=("/below0",)))

    def _issue(self, path: str, paper: Paper) -> None:
        self.papers[path] = paper
        self.publish(path, paper)

    def change(self, chance: Random) -> None:
        self._calm()
        path = f"/p{chance.randrange(8)}"
        links = tuple(f"/below{number}" for number in range(4) if chance.random() < 0.3)
        match chance.randrange(10):
            case 0 | 1 | 2 | 3:
                self._issue(path, Paper(chance.choice(WORDS), chance.choice(["agenda", "minutes", ""]), links))
            case 4:
                if path in self.papers and path != "/p0":
                    self.withdraw(path)
                    del self.papers[path], self.pages[path]
            case 5:
                self.papers["/overview"] = Paper("All", "", links=links)
                self.put_paper("/overview", self.papers["/overview"])
            case 6:
                # The same document under another address, as after a move of the site.
                self.put_paper(f"{path}.{self.minute}", Paper(chance.choice(WORDS), "agenda", links))
                self.papers[path] = Paper()
                self.publish(path, Paper(), location=f"{self.url}{path}.{self.minute}")
            case 7 | 8:
                self._break(chance.choice(list(self.papers)))
            case 9:
                self.down = True

    def _break(self, path: str) -> None:
        if path in self.pages:
            self.alter(path, status=500)

    def _calm(self) -> None:
        self.down = False
        for path, page in list(self.pages.items()):
            if page.status == 500:
                self.alter(path, status=200)

    def ail(self, chance: Random) -> None:
        self._calm()
        path = f"/p{chance.randrange(8)}"
        self._issue(path, Paper(chance.choice(WORDS)))
        self._break(path)

    def recover(self) -> None:
        self._calm()

    def heal(self) -> None:
        self._calm()
