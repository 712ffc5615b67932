"""Where pages are, below the path that the server is reached by; and which addresses of others may be links."""

from dataclasses import dataclass
from urllib.parse import quote, urlencode, urljoin, urlsplit

__all__ = ["PageAddresses", "joined", "local", "outside"]

# What a click may open. A `javascript:` or `data:` address runs in this page, a `file:` one is not reachable from it.
_SCHEMES = ("http", "https")


@dataclass(frozen=True, slots=True)
class PageAddresses:
    """Builds addresses of pages: `at("sources", name, q="hay")` is `/sources/NAME?q=hay`."""

    root: str = ""

    def __call__(self, *segments: object, **query: object) -> str:
        """The address of a page; of a query, what is None or empty is left out, and a list is repeated."""
        path = "/".join(quote(str(segment), safe="") for segment in segments)
        pairs = [
            (name, str(one))
            for name, value in query.items()
            for one in (value if isinstance(value, list | tuple) else [value])
            if one not in (None, "", False)
        ]
        return f"{self.root}/{path}" + (f"?{urlencode(pairs)}" if pairs else "")

    def feed(self, form: str, source: str | None = None, **filters: object) -> str:
        """Where changes can be followed: `atom`, `json` or, as an event stream, `ldes`."""
        below = ("sources", source) if source else ()
        return self(*below, "ldes") if form == "ldes" else self(*below, "feeds", form, **filters)


def outside(url: str) -> str:
    """The address if it may be a link, else nothing."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return url if parts.scheme.lower() in _SCHEMES and parts.netloc else ""


def joined(base: str, link: str) -> str:
    """A link of a text as an address that may be followed, else nothing."""
    try:
        return outside(urljoin(base, link.strip())) if outside(base) or outside(link) else ""
    except ValueError:
        return ""


def local(path: str | None) -> str:
    """A path of this server, whatever was asked for: `//host` and addresses of others become the front page."""
    is_ours = path is not None and path.startswith("/") and not path.startswith(("//", "/\\"))
    return path if path is not None and is_ours and path.isprintable() else "/"
