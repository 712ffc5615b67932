"""What an address was found to be, in words."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rowen.service.discovery import Discovery

__all__ = ["found_words"]

_NAMES = {
    "arcgis": "an ArcGIS Hub",
    "ckan": "a CKAN portal",
    "csw": "a CSW catalog",
    "datajson": "a data.json",
    "dcat": "a DCAT catalog",
    "oai": "an OAI-PMH repository",
    "opendatasoft": "an OpenDataSoft portal",
    "sdmx": "an SDMX service",
    "socrata": "a Socrata portal",
    "sparql": "a SPARQL endpoint",
    "stac": "a STAC catalog",
}


def found_words(discovery: "Discovery") -> str:
    """What was found, and how to have it otherwise."""
    name = _NAMES.get(discovery.kind, "a source")
    return f"Found {name} at {discovery.url}: kind {discovery.kind}. Add it with --kind web to crawl the site instead."
