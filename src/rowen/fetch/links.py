"""The `Link` header (RFC 8288): where the next page is."""

import re

__all__ = ["next_link"]

_NEXT = re.compile(r'\brel="?next"?', re.IGNORECASE)


def next_link(header: str) -> str | None:
    """The target of the first link whose relation is `next`."""
    at = 0
    while (begin := header.find("<", at)) >= 0 and (end := header.find(">", begin)) >= 0:
        at = header.find(",", end)
        parameters = header[end + 1 : at if at >= 0 else None]
        if parameters.lstrip().startswith(";") and _NEXT.search(parameters):
            return header[begin + 1 : end] or None
        if at < 0:
            return None
    return None
