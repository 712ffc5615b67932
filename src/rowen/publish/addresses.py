"""Where what we publish is found, below the address that others reach us by."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

__all__ = ["PublicAddresses"]


@dataclass(frozen=True, slots=True)
class PublicAddresses:
    """The addresses of one source's publications, or of those of all sources."""

    base: str
    source: str | None = None

    @property
    def root(self) -> str:
        """What all of them begin with."""
        base = self.base.rstrip("/")
        return base if self.source is None else f"{base}/sources/{quote(self.source, safe='')}"

    def change(self, number: int) -> str:
        """One line of the log, whichever source it is of."""
        return f"{self.base.rstrip('/')}/changes/{number}"

    def feed(
        self,
        form: str,
        *,
        query: str | None = None,
        kinds: Sequence[str] = (),
        field: str | None = None,
        before: int | None = None,
    ) -> str:
        """A feed, or its page of what came before a number."""
        given = [("query", query), *(("kind", kind) for kind in kinds), ("field", field), ("before", before)]
        asked = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in given if value is not None)
        return f"{self.root}/feeds/{form}" + (f"?{asked}" if asked else "")

    def stream(self, node: str = "") -> str:
        """The event stream's first page, or another: `blocks/3`, `pages/17`."""
        return f"{self.root}/ldes" + (f"/{node}" if node else "")

    def catalog(self, form: str, after: str | None = None) -> str:
        """The catalog of all datasets (`dcat`, `data.json`), or its page after a place."""
        return f"{self.root}/catalog/{form}" + (f"?after={quote(after, safe='')}" if after else "")
