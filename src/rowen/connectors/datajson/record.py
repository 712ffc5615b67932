"""Map records of DCAT-US, 1.1 or 3, to datasets."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from rowen.connectors.catalog.dataset import Dataset, Resource, kind_named, place_of
from rowen.connectors.catalog.dates import iso
from rowen.connectors.catalog.records import Json, listed, objects
from rowen.connectors.catalog.resources import columns_of_schema, format_named, format_of, media_type_named, size_of
from rowen.connectors.catalog.text import codes_of, one_of, plain, word, wordings
from rowen.formats.json_records import depths_at
from rowen.model.hashes import body_hash, canonical_json
from rowen.model.text import UNREADABLE
from rowen.model.url import canonical, quoted

_SCHEME = re.compile(r"https?://", re.IGNORECASE)
_LONGEST_PLACE = 2000  # characters: names, boxes and short polygons are kept, outlines of countries (100 kB) are not
_MEMBERS = ("seriesMember", "first", "last", "prev", "servesDataset")
_LABELS = ("prefLabel", "label", "title", "name", "@value", "@id")


def dataset_of(record: Json, document: str, *, language: str | None = None) -> Dataset:
    """Return the dataset of a record; missing values stay empty."""
    wording = wordings(record.get("title"), record.get("description"), preferred=language)
    identifier = _identifier(record)
    files = objects(record.get("distribution"))
    # In DCAT-US 3 files have the licence; it is the licence of the dataset if all files have the same one.
    licences = {_label(file.get("license"), wording.language) for file in files}
    # A longer geometry is only in the source record.
    place = place_of(record.get("spatial"))
    endpoints = [
        Resource(url=url, name=name)
        for field, name in (("endpointURL", "Endpoint"), ("endpointDescription", "Description of the endpoint"))
        for value in listed(record.get(field))
        if (url := word(_bare(value)))
    ]
    return Dataset(
        url=item_url(record, document),
        identifier=identifier,
        title=wording.title or identifier or word(record.get("landingPage")) or "Untitled",
        description=wording.description,
        tags=tuple(_words(record.get("keyword"), record.get("theme"))),
        publisher=_name(record.get("publisher"), wording.language),
        licence=_label(record.get("license"), wording.language) or (licences.pop() if len(licences) == 1 else ""),
        languages=codes_of(_words(record.get("language"))) or tuple(filter(None, [wording.language])),
        issued=iso(_bare(record.get("issued"))),
        modified=iso(_bare(record.get("modified"))),
        spatial=place if len(place) <= _LONGEST_PLACE else "",
        temporal=", ".join(_periods(record.get("temporal"))),
        landing_page=word(_bare(record.get("landingPage"))),
        resources=(*(_resource(file, wording.language) for file in files), *endpoints),
        record_kind=kind_named(_words(record.get("@type"))),
        texts=wording.others,
        source=record,
    )


def item_url(record: Json, document: str) -> str:
    """Return the URL of a record's item: its identifier if that is an address, else the document with a fragment.

    The URL is the same for http and https, because portals change between them. A record without an identifier is
    identified by its page or file together with its title and publisher, so a change of these yields another item.
    """
    identifier = _identifier(record)
    if _SCHEME.match(identifier) and "#" not in identifier:
        with suppress(ValueError):
            return canonical(identifier)
    base = document.partition("#")[0]
    if identifier:
        return f"{base}#/{quoted(_SCHEME.sub('', identifier, count=1))}"
    return f"{base}#/unnamed/{body_hash(canonical_json(likeness(record))).hex()[:32]}"


def _identifier(record: Json) -> str:
    for name in ("identifier", "@id"):
        value = record.get(name)
        if isinstance(value, list) and value:
            value = value[0]
        if isinstance(value, Mapping):
            value = value.get("@id") or value.get("identifier") or value.get("notation")
        if said := word(value):
            return said
    return ""


def likeness(record: Json) -> list[str]:
    """Return the values that identify a record without an identifier: its page or first file, title and publisher."""
    files = (
        word(file.get(name)) for file in objects(record.get("distribution")) for name in ("accessURL", "downloadURL")
    )
    place = word(record.get("landingPage")) or next(filter(None, files), "")
    return [_SCHEME.sub("", place, count=1), one_of(record.get("title"), None), _name(record.get("publisher"), None)]


def _resource(file: Json, language: str | None) -> Resource:
    url = word(_bare(file.get("downloadURL"))) or word(_bare(file.get("accessURL")))
    media_type = media_type_named(_label(file.get("mediaType"), language))
    return Resource(
        url=url,
        name=one_of(file.get("title"), language),
        description=plain(one_of(file.get("description"), language)),
        format=format_named(_label(file.get("format"), language)) or format_of(media_type, url),
        media_type=media_type,
        size_bytes=size_of(_bare(file.get("byteSize"))),
        columns=columns_of_schema(file, language),
    )


def members_of(record: Json) -> list[Json]:
    """Return the complete datasets within a series or a service, without duplicates."""
    members = [member for name in _MEMBERS for member in objects(record.get(name)) if member.get("title")]
    return list({canonical_json(member): member for member in members}.values())


def _bare(value: Any) -> Any:
    """Return a value or an address without the object in which DCAT-US 3 may wrap it."""
    if isinstance(value, Mapping):
        return value.get("@value") or value.get("@id")
    return value


def _label(value: Any, language: str | None) -> str:
    """Return a name, given as a text, as a map of languages, or as an object."""
    if isinstance(value, Mapping):
        said = (one_of(value.get(name), language) for name in _LABELS)
        return next(filter(None, said), "") or ("" if "@type" in value else one_of(value, language))
    return word(value)


def _name(value: Any, language: str | None) -> str:
    agents = listed(value)
    names = [agent.get("name") if isinstance(agent, Mapping) and "name" in agent else agent for agent in agents]
    return next((said for name in names if (said := one_of(name, language))), "")


def _words(*values: Any) -> Iterator[str]:
    return (said for value in values for part in listed(value) if (said := _label(part, None)))


def _periods(value: Any) -> Iterator[str]:
    for period in listed(value):
        if isinstance(period, Mapping):
            start, end = _bare(period.get("startDate")), _bare(period.get("endDate"))
            if start or end:
                yield f"{iso(start) or word(start)}/{iso(end) or word(end)}"
        elif said := word(period):
            yield said


_IDENTIFIERS = (re.compile(rb'"identifier"\s*+:\s*+'), re.compile(rb'"@id"\s*+:\s*+'))
_GOES_ON = re.compile(r"\s*+[,}]")
_PARTS = frozenset({"accessURL", "byteSize", "downloadURL", "fn", "hasEmail", "mediaType"})
_OF_PARTS = re.compile(r"Distribution|Contact|Individual|Organization|Agent|Location|PeriodOfTime|Concept")
_MOST_READ_BYTES = 1 << 20  # searched for the identifier of a broken record: a usual record has a few kB
_MOST_IDENTIFIER_BYTES = 1 << 14  # longer than any URL that servers take (8 kB)
_MOST_PLACES = 1000  # identifiers in one broken part: each is looked up, and a part includes only a few records
_DECODER = json.JSONDecoder()


def is_record(value: Any) -> bool:
    """Return whether an object is a record rather than a file, publisher or contact of a record."""
    if not isinstance(value, Mapping) or _PARTS & value.keys() or _OF_PARTS.search(str(value.get("@type"))):
        return False
    return any(value.get(name) for name in ("identifier", "@id", "title"))


def name_of(body: bytes, value: Any, document: str) -> str | None:
    """Return the URL of the item of an unreadable record; None if the record cannot be identified."""
    if not isinstance(value, Mapping):
        return _url(_identifier_in(body[:_MOST_READ_BYTES]), document) if body[:1] == b"{" else None
    with suppress(*UNREADABLE):
        return item_url(value, document)
    return None


def names_in(body: bytes, document: str) -> set[str]:
    """Return the URLs of all items that a broken part may contain, since it may include further records."""
    places = (place for pattern in _IDENTIFIERS for place in islice(pattern.finditer(body), _MOST_PLACES))
    return {url for place in places if (url := _url(_value(body, place.end()), document))}


def _url(identifier: Any, document: str) -> str | None:
    with suppress(*UNREADABLE):
        return item_url({"identifier": identifier}, document) if word(identifier) else None
    return None


def _identifier_in(body: bytes) -> Any:
    """Return the identifier of a broken record: its own if it precedes the error, else the only one in the text."""
    # After the first JSON error, brackets and strings cannot be distinguished.
    sound_bytes = len(body)
    try:
        _DECODER.raw_decode(body.decode("latin-1"))
    except json.JSONDecodeError as problem:
        sound_bytes = problem.pos
    except RecursionError:
        pass
    for pattern in _IDENTIFIERS:
        places = list(islice(pattern.finditer(body), _MOST_PLACES))
        sound = [place for place in places if place.start() < sound_bytes]
        depths = depths_at(body, [place.start() for place in sound])
        own = [place for place, depth in zip(sound, depths, strict=True) if depth == 1]
        for place in own[:1] or (places if len(places) == 1 else []):
            if said := _value(body, place.end()):
                return said
    return None


def _value(body: bytes, at: int) -> Any:
    text = body[at : at + _MOST_IDENTIFIER_BYTES].decode("utf-8", "replace")
    with suppress(ValueError, RecursionError):
        value, end = _DECODER.raw_decode(text)
        return value if _GOES_ON.match(text, end) else None
    return None


REMARK = "Other records of the catalog have the same identifier."
# Digests that distinguish records, the coarsest first; the last one covers the whole record.
Traits = tuple[str, str, str]
_VARIANT = re.compile(r"(?P<base>.*?)#?/shared/[0-9a-f]{32}", re.DOTALL)


def traits_of(record: Json) -> Traits:
    """Return the digests that distinguish a record from other records with its identifier."""
    title = one_of(record.get("title"), None)
    return _digest("title", title), _digest("likeness", *likeness(record)), _digest("record", record)


def is_variant(url: str) -> bool:
    """Return whether a URL belongs to a record that shares its identifier with others."""
    return "#/" in url and _VARIANT.fullmatch(url) is not None


def base_of(url: str) -> str:
    """Return the URL given by the identifier, without the suffix of a shared identifier."""
    match = _VARIANT.fullmatch(url) if "#/" in url else None
    return match["base"] if match else url


class SharedNames:
    """The URLs of records whose identifiers occur more than once.

    `sound` contains the traits of the readable records, by URL. `doubtful` contains the URLs for which a record cannot
    be read; None stands for all URLs, if the document is cut off. An item that is `stored` under a variant of a
    doubtful URL keeps its URL.
    """

    def __init__(
        self, sound: Mapping[str, Sequence[Traits]], stored: Iterable[str], doubtful: frozenset[str] | None
    ) -> None:
        self._sound = sound
        self._stored = frozenset(stored)
        self._doubtful = doubtful
        self._names: dict[tuple[str, str], str] = {}
        for url, records in sound.items():
            distinct = dict.fromkeys(records)
            counts = Counter(digest for traits in distinct for digest in traits)
            for traits in distinct if len(distinct) > 1 else ():
                telling = next((digest for digest in traits if counts[digest] == 1), traits[-1])
                self._names[url, traits[-1]] = _variant(url, telling)

    def knows(self, url: str) -> bool:
        """Return whether a record with this identifier can be read."""
        return bool(self._sound.get(url))

    def name(self, url: str, traits: Callable[[], Traits]) -> str:
        """Return the URL of a record; `url` is the URL given by its identifier, which other records may share."""
        if url not in self._sound and not self._stored:
            return url
        digests = traits()
        if name := self._names.get((url, digests[-1])):
            return name
        is_doubtful = self._doubtful is None or url in self._doubtful
        variants = [_variant(url, digest) for digest in digests] if is_doubtful else []
        return next((name for name in variants if name in self._stored), url)


def _variant(url: str, digest: str) -> str:
    return f"{url}{'' if '#/' in url else '#'}/shared/{digest}"


def _digest(*said: Any) -> str:
    return body_hash(canonical_json(said)).hex()[:32]
