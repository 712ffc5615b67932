"""A source that is a list in the test: it shows the flow exactly the observations that the test wants."""

from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Any, ClassVar

from rowen import Document, Known, Observation, Options, Tools

Script = Callable[[Known], Iterable[Observation]]


class Scripted:
    """Yields what `script` says; the last `known` is kept for the test to look at."""

    kind = "scripted"
    Options = Options
    script: ClassVar[Script]
    known: ClassVar[Known]

    def __init__(self, url: str, options: Options, tools: Tools) -> None:
        self.tools = tools

    @classmethod
    def recognise(cls, address: str) -> str | None:
        return address if address.startswith("scripted:") else None

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        Scripted.known = known
        for observation in Scripted.script(known):
            yield observation


def shows(*observations: Observation) -> None:
    """The next pull sees this."""
    Scripted.script = lambda known: observations


def page(number: int | str, text: str = "Some text.", **more: Any) -> Document:
    """A small document."""
    return Document(f"https://example.org/{number}", more.pop("title", f"Page {number}"), text, **more)
