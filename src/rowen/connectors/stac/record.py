"""Map STAC Collections, 1.0 or 1.1, to datasets."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urljoin

from rowen.connectors.catalog.dataset import Dataset, Resource
from rowen.connectors.catalog.dates import iso
from rowen.connectors.catalog.options import DocumentOptions, web_url
from rowen.connectors.catalog.records import Json, listed, objects
from rowen.connectors.catalog.resources import columns_in, format_of, size_of
from rowen.connectors.catalog.text import codes_of, plain, word
from rowen.connectors.plain_options import option
from rowen.model.url import quoted

_MAKERS = ("producer", "licensor", "processor", "host")
_NO_LICENCE = frozenset({"", "proprietary", "various", "other"})
_PAGES = ("about", "describedby", "alternate")


def dataset_of(record: Mapping[str, Any], url: str, *, base: str) -> Dataset:
    """Return the dataset of a collection; `url` is the URL of its item, `base` the base address of its links."""
    identifier = word(record.get("id"))
    # If the name of the licence has no meaning, use the address of its text.
    licence = word(record.get("license"))
    if licence.lower() in _NO_LICENCE:
        licence = next((joined(base, word(link["href"])) for link in links_of(record, "license")), licence)
    # The language extension has one field for the record's own language and one for the other languages.
    languages = [record.get("language"), *listed(record.get("languages"))]
    codes = [word(named.get("code") if isinstance(named, Mapping) else named) for named in languages]
    # The variables of a data cube correspond to the columns of a table.
    cube = record.get("cube:variables")
    variables: list[Json] = []
    if isinstance(cube, Mapping) and all(isinstance(variable, Mapping) for variable in cube.values()):
        variables = [
            {**variable, "name": name, "type": None, "label": variable.get("description")}
            for name, variable in cube.items()
        ]
    return Dataset(
        url=url,
        identifier=identifier,
        title=word(record.get("title")) or identifier,
        description=plain(word(record.get("description"))),
        tags=tuple(filter(None, map(word, listed(record.get("keywords"))))),
        publisher=_publisher(record),
        licence=licence,
        languages=codes_of(filter(None, codes)),
        issued=iso(record.get("published")) or iso(record.get("created")),
        modified=iso(record.get("updated")),
        spatial=_place(record),
        temporal=", ".join(_periods(record)),
        landing_page=_page(record, base),
        resources=tuple(_resource(name, asset, base) for name, asset in _assets(record)),
        columns=(*columns_in(record.get("table:columns")), *columns_in(variables)),
        # In the ISO 19115 profile for Earth observation, a collection is a series of products.
        record_kind="series",
        source=record,
    )


def links_of(record: Mapping[str, Any], *relations: str) -> Iterator[Mapping[str, Any]]:
    """Yield the links of a document that have one of these relations and an address."""
    for link in objects(record.get("links")):
        if word(link.get("rel")) in relations and word(link.get("href")):
            yield link


def joined(base: str, href: str) -> str:
    """Return the absolute address of a link; return the link unchanged if it is invalid."""
    with suppress(ValueError):
        return urljoin(base, href) if href else ""
    return href


def _publisher(record: Json) -> str:
    """Return the producers; without a producer, the licensors, processors or hosts."""
    providers = [
        (word(provider.get("name")), listed(provider.get("roles"))) for provider in objects(record.get("providers"))
    ]
    for role in _MAKERS:
        if names := [name for name, roles in providers if name and role in roles]:
            return ", ".join(dict.fromkeys(names))
    return next((name for name, _ in providers if name), "")


def _place(record: Mapping[str, Any]) -> str:
    """Return the first bounding box, which encloses all others, as west, south, east and north."""
    boxes = listed(_extent(record, "spatial").get("bbox"))
    box = boxes[0] if boxes and isinstance(boxes[0], list) else boxes
    numbers = [number for number in box if isinstance(number, int | float) and not isinstance(number, bool)]
    if len(numbers) != len(box) or len(numbers) not in (4, 6):
        return ""
    flat = numbers if len(numbers) == 4 else [*numbers[:2], *numbers[3:5]]
    return ",".join(f"{number:.10g}" for number in flat)


def _periods(record: Mapping[str, Any]) -> Iterator[str]:
    for span in listed(_extent(record, "temporal").get("interval")):
        match span:
            case [start, end] if start or end:
                yield "/".join(iso(value) or word(value) or ".." for value in (start, end))


def _extent(record: Mapping[str, Any], part: str) -> Mapping[str, Any]:
    extent = record.get("extent")
    values = extent.get(part) if isinstance(extent, Mapping) else None
    return values if isinstance(values, Mapping) else {}


def _page(record: Mapping[str, Any], base: str) -> str:
    """Return the web page that the collection links; empty if there is none."""
    for relation in _PAGES:
        for link in links_of(record, relation):
            if word(link.get("type")).startswith("text/html") or (relation != "alternate" and not link.get("type")):
                return joined(base, word(link["href"]))
    return ""


def asset_names(record: Mapping[str, Any]) -> list[str]:
    """Return the names of a collection's assets, in the order of its files."""
    return [name for name, _ in _assets(record)]


def _assets(record: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    assets = record.get("assets")
    if isinstance(assets, Mapping):
        yield from ((str(name), asset) for name, asset in assets.items() if isinstance(asset, Mapping))


def _resource(name: str, asset: Mapping[str, Any], base: str) -> Resource:
    url = joined(base, word(asset.get("href")))
    # Planetary Computer writes `media_type`, which is no field of STAC.
    media_type = word(asset.get("type")) or word(asset.get("media_type"))
    return Resource(
        url=url,
        name=word(asset.get("title")) or name,
        description=plain(word(asset.get("description"))),
        format=format_of(media_type, url),
        media_type=media_type,
        size_bytes=size_of(asset.get("file:size")),
        columns=columns_in(asset.get("table:columns")),
    )


_TELLING = re.compile(r"(?:/api/stac|/stac/v\d[\w.-]*)(?:/v\d[\w.-]*)?(?:/collections)?/?$", re.IGNORECASE)
_DATA = ("data", "http://www.opengis.net/def/rel/ogc/1.0/data")
_CONFORMS = re.compile(r"api\.stacspec\.org/[^/]+/(?:collections|ogcapi-features|collection-search)\b")
_STAC = re.compile(rb'"stac_version"\s*:|api\.stacspec\.org/')
_ABOUT = re.compile(rb'"(?:collections|conformsTo|links)"\s*:')


def is_typical(address: str) -> bool:
    """Return whether the address alone identifies STAC: it ends in `/api/stac`, or `/stac` and a version."""
    return _TELLING.search(address.partition("?")[0]) is not None


def accept(address: str) -> str | None:
    """Return the source URL of any web address; for a list of collections, its root; None for other text."""
    url = web_url(address, "stac")
    if url is None:
        return None
    return url if "?" in url else re.sub(r"/collections/?$", "/", url)


def is_stac(body: bytes) -> bool:
    """Return whether a body, or its beginning, looks like a STAC document."""
    return body.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{" and bool(_STAC.search(body) and _ABOUT.search(body))


def listing_url(root: Mapping[str, Any], url: str) -> str | None:
    """Return the address of an API's list of collections, from its root document; None for a static catalog."""
    if isinstance(root.get("collections"), list):
        return url
    for link in links_of(root, *_DATA):
        return joined(url, word(link["href"]))
    if _CONFORMS.search(json.dumps(root.get("conformsTo"), default=str)):
        return f"{url.partition('?')[0].rstrip('/')}/collections"
    return None


def item_url(root: str, identifier: str) -> str:
    """Return the URL of an API's collection: the source's address with its identifier, regardless of its links."""
    base = root.partition("?")[0].rstrip("/").removesuffix("/collections")
    if not identifier.strip("."):
        return f"{base}/collections#/{identifier}"
    return f"{base}/collections/{quoted(identifier, safe=':@!$&,;=+~')}"


class StacOptions(DocumentOptions):
    """Options of kind `stac`; `language` is the language of all collections."""

    limit: int | None = option(default=None, ge=1, le=10_000, description="collections to ask for at once")
    depth: int = option(default=6, ge=0, le=50, description="how deep to follow the children of a static catalog")
    max_documents: int = option(default=100_000, ge=1, description="most documents of a static catalog")
