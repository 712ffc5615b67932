"""Licences as text: an address where there is one, else words, whatever markup stands around either."""

import re

from rowen.connectors.catalog.text import has_markup, one_line

__all__ = ["address_of_licence", "licence_in"]

_ADDRESS = re.compile(r"https?://[^\s\"'<>]{1,500}", re.IGNORECASE)
_TOLD = re.compile(r"licen[cs]e|creativecommons|opendata|/dl-de|etalab", re.IGNORECASE)
_PICTURE = re.compile(r"\.(?:png|gif|jpe?g|svg|webp)$", re.IGNORECASE)
_AT_ITS_END = ',;.)"'


def licence_in(text: str) -> str:
    """What a record says of its licence; markup counts for the addresses that it holds."""
    if not has_markup(text):
        return one_line(text)
    if found := address_of_licence(text):
        return found
    addresses = _addresses(text)
    is_address = bool(addresses) and text.lstrip().startswith(addresses[0])
    return addresses[0] if is_address else one_line(text) or next(iter(addresses), "")


def address_of_licence(text: str) -> str:
    """The first address in a text that looks like a licence's."""
    return next((address for address in _addresses(text) if _TOLD.search(address)), "")


def _addresses(text: str) -> list[str]:
    found = (one.rstrip(_AT_ITS_END) for one in _ADDRESS.findall(text))
    return [address for address in found if not _PICTURE.search(address)]
