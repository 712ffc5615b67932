"""A record of XML as it is kept in quarantine: the XML itself, so that one can see what is wrong with it."""

from xml.etree.ElementTree import Element, tostring

__all__ = ["written"]

_MOST_BYTES = 1 << 20


def written(tree: Element) -> bytes:
    """An element as XML; prefixes are numbered, since those of the document are not kept. A large one is cut off."""
    return tostring(tree, encoding="unicode").encode("utf-8", "replace")[:_MOST_BYTES]
