"""A record of DCAT-US, 1.1 or 3, becomes a dataset."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from rowen.connectors.catalog.dataset import Dataset, Resource, kind_named, place_of
from rowen.connectors.catalog.dates import iso
from rowen.connectors.catalog.resources import columns_of_schema, format_named, format_of, media_type_named, size_of
from rowen.connectors.catalog.text import codes_of, one_of, plain, word, wordings
from rowen.formats.json_records import depths_at
from rowen.model.hashes import body_hash, canonical_json
from rowen.model.text import UNREADABLE
from rowen.model.url import canonical, quoted

__all__ = [
    "REMARK",
    "SharedNames",
    "Traits",
    "base_of",
    "dataset_of",
    "is_record",
    "is_variant",
    "members_of",
    "name_of",
    "names_in",
    "traits_of",
]

_SCHEME = re.compile(r"https?://", re.IGNORECASE)
_LONGEST_PLACE = 2000  # letters: names, boxes and short polygons pass, outlines of countries (100 kB) do not
_MEMBERS = ("seriesMember", "first", "last", "prev", "servesDataset")
_LABELS = ("prefLabel", "label", "title", "name", "@value", "@id")


def dataset_of(record: Mapping[str, Any], document: str, *, language: str | None = None) -> Dataset:
    """Return the dataset of a record; missing values stay empty."""
    said = wordings(record.get("title"), record.get("description"), preferred=language)
    identifier = _identifier(record)
    return Dataset(
        url=item_url(record, document),
        identifier=identifier,
        title=said.title or identifier or word(record.get("landingPage")) or "Untitled",
        description=said.description,
        tags=tuple(_words(record.get("keyword"), record.get("theme"))),
        publisher=_name(record.get("publisher"), said.language),
        licence=_label(record.get("license"), said.language) or _shared_licence(record, said.language),
        languages=codes_of(_words(record.get("language"))) or tuple(filter(None, [said.language])),
        issued=iso(_bare(record.get("issued"))),
        modified=iso(_bare(record.get("modified"))),
        spatial=_place(record.get("spatial")),
        temporal=", ".join(_periods(record.get("temporal"))),
        landing_page=word(_bare(record.get("landingPage"))),
        resources=(
            *(_resource(object_, said.language) for object_ in _objects(record.get("distribution"))),
            *_endpoints(record),
        ),
        record_kind=kind_named(_words(record.get("@type"))),
        texts=said.others,
        source=record,
    )


def item_url(record: Mapping[str, Any], document: str) -> str:
    """Under which URL a record is known: its identifier if that is an address, else a route of the document.

    It is the same for http and https: portals change from one to the other, and back. A record without an identifier
    is known by its page or file together with title and publisher; it becomes another one when these change.
    """
    identifier = _identifier(record)
    if _SCHEME.match(identifier) and "#" not in identifier:
        with suppress(ValueError):
            return canonical(identifier)
    base = document.partition("#")[0]
    if identifier:
        return f"{base}#/{quoted(_SCHEME.sub('', identifier, count=1))}"
    return f"{base}#/unnamed/{body_hash(canonical_json(likeness(record))).hex()[:32]}"


def _identifier(record: Mapping[str, Any]) -> str:
    for name in ("identifier", "@id"):
        value = record.get(name)
        if isinstance(value, list) and value:
            value = value[0]
        if isinstance(value, Mapping):
            value = value.get("@id") or value.get("identifier") or value.get("notation")
        if said := word(value):
            return said
    return ""


def likeness(record: Mapping[str, Any]) -> list[str]:
    """Return what identifies a record without its identifier: its page or first file, its title and its publisher."""
    files = (
        word(object_.get(name))
        for object_ in _objects(record.get("distribution"))
        for name in ("accessURL", "downloadURL")
    )
    place = word(record.get("landingPage")) or next(filter(None, files), "")
    return [_SCHEME.sub("", place, count=1), one_of(record.get("title"), None), _name(record.get("publisher"), None)]


def _resource(one: Mapping[str, Any], language: str | None) -> Resource:
    url = word(_bare(one.get("downloadURL"))) or word(_bare(one.get("accessURL")))
    media_type = media_type_named(_label(one.get("mediaType"), language))
    return Resource(
        url=url,
        name=one_of(one.get("title"), language),
        description=plain(one_of(one.get("description"), language)),
        format=format_named(_label(one.get("format"), language)) or format_of(media_type, url),
        media_type=media_type,
        size_bytes=size_of(_bare(one.get("byteSize"))),
        columns=columns_of_schema(one, language),
    )


def _endpoints(record: Mapping[str, Any]) -> Iterator[Resource]:
    """Yield where a service of DCAT-US 3 is found."""
    for field, name in (("endpointURL", "Endpoint"), ("endpointDescription", "Description of the endpoint")):
        for one in _list(record.get(field)):
            if url := word(_bare(one)):
                yield Resource(url=url, name=name)


def members_of(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the datasets that a series or a service holds whole, each once; mere names are none."""
    members = [object_ for name in _MEMBERS for object_ in _objects(record.get(name)) if object_.get("title")]
    return list({canonical_json(member): member for member in members}.values())


def _bare(value: Any) -> Any:
    """Return a value that DCAT-US 3 may wrap with its type, or an address that it may wrap as a node."""
    if isinstance(value, Mapping):
        return value.get("@value") or value.get("@id")
    return value


def _label(value: Any, language: str | None) -> str:
    """Return a name that is given as a text, in several languages, or as an object."""
    if isinstance(value, Mapping):
        said = (one_of(value.get(name), language) for name in _LABELS)
        return next(filter(None, said), "") or ("" if "@type" in value else one_of(value, language))
    return word(value)


def _name(value: Any, language: str | None) -> str:
    names = [one.get("name") if isinstance(one, Mapping) and "name" in one else one for one in _list(value)]
    return next((said for name in names if (said := one_of(name, language))), "")


def _shared_licence(record: Mapping[str, Any], language: str | None) -> str:
    """DCAT-US 3 puts the licence to the files: that of the dataset is theirs if they have the same."""
    licences = {_label(object_.get("license"), language) for object_ in _objects(record.get("distribution"))}
    return licences.pop() if len(licences) == 1 else ""


def _words(*values: Any) -> Iterator[str]:
    for value in values:
        for one in _list(value):
            if said := _label(one, None):
                yield said


def _place(value: Any) -> str:
    """Return a place in words or numbers; a whole geometry stays in the source's record."""
    said = place_of(value)
    return said if len(said) <= _LONGEST_PLACE else ""


def _periods(value: Any) -> Iterator[str]:
    for one in _list(value):
        if isinstance(one, Mapping):
            start, end = _bare(one.get("startDate")), _bare(one.get("endDate"))
            if start or end:
                yield f"{iso(start) or word(start)}/{iso(end) or word(end)}"
        elif said := word(one):
            yield said


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in _list(value) if isinstance(one, Mapping)]


def _list(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    return [] if value is None or value == "" else [value]


_IDENTIFIERS = (re.compile(rb'"identifier"\s*+:\s*+'), re.compile(rb'"@id"\s*+:\s*+'))
_GOES_ON = re.compile(r"\s*+[,}]")
_PARTS = frozenset({"accessURL", "byteSize", "downloadURL", "fn", "hasEmail", "mediaType"})
_OF_PARTS = re.compile(r"Distribution|Contact|Individual|Organization|Agent|Location|PeriodOfTime|Concept")
_MOST_READ_BYTES = 1 << 20  # of a broken record, looked at for its name: an honest one has some kB
_MOST_IDENTIFIER_BYTES = 1 << 14  # longer than any URL that servers take (8 kB)
_MOST_PLACES = 1000  # names in one broken piece: each is looked up, and a piece swallows a few records at most
_DECODER = json.JSONDecoder()


def is_record(value: Any) -> bool:
    """Return whether an object is a record, and not one of its files, publishers or contacts."""
    if not isinstance(value, Mapping) or _PARTS & value.keys() or _OF_PARTS.search(str(value.get("@type"))):
        return False
    return any(value.get(name) for name in ("identifier", "@id", "title"))


def name_of(body: bytes, value: Any, document: str) -> str | None:
    """Return the URL of the item that an unreadable record is about, if it tells."""
    if not isinstance(value, Mapping):
        return _url(_identifier_in(body[:_MOST_READ_BYTES]), document) if body[:1] == b"{" else None
    with suppress(*UNREADABLE):
        return item_url(value, document)
    return None


def names_in(body: bytes, document: str) -> set[str]:
    """Return the URLs of all that may be in a broken piece: it may have swallowed other records."""
    places = (found for pattern in _IDENTIFIERS for found in islice(pattern.finditer(body), _MOST_PLACES))
    return {url for place in places if (url := _url(_value(body, place.end()), document))}


def _url(identifier: Any, document: str) -> str | None:
    with suppress(*UNREADABLE):
        return item_url({"identifier": identifier}, document) if word(identifier) else None
    return None


def _identifier_in(body: bytes) -> Any:
    """Return the identifier of a broken record: one that stands before the error and is its own, or the only one."""
    sound_bytes = _sound_bytes(body)
    for pattern in _IDENTIFIERS:
        places = list(islice(pattern.finditer(body), _MOST_PLACES))
        sound = [place for place in places if place.start() < sound_bytes]
        depths = depths_at(body, [one.start() for one in sound])
        own = [one for one, depth in zip(sound, depths, strict=True) if depth == 1]
        for found in own[:1] or (places if len(places) == 1 else []):
            if said := _value(body, found.end()):
                return said
    return None


def _sound_bytes(body: bytes) -> int:
    """Return up to where a body is JSON: after that, brackets and strings cannot be distinguished."""
    with suppress(RecursionError):
        try:
            _DECODER.raw_decode(body.decode("latin-1"))
        except json.JSONDecodeError as problem:
            return problem.pos
    return len(body)


def _value(body: bytes, at: int) -> Any:
    text = body[at : at + _MOST_IDENTIFIER_BYTES].decode("utf-8", "replace")
    with suppress(ValueError, RecursionError):
        value, end = _DECODER.raw_decode(text)
        return value if _GOES_ON.match(text, end) else None
    return None


REMARK = "Other records of the catalog have the same identifier."

Traits = tuple[str, str, str]
"""Digests that distinguish records, the coarsest first; the last one covers the whole record."""

_VARIANT = re.compile(r"(?P<base>.*?)#?/shared/[0-9a-f]{32}", re.DOTALL)


def traits_of(record: Mapping[str, Any]) -> Traits:
    """What distinguishes a record from others with its identifier."""
    title = one_of(record.get("title"), None)
    return _digest("title", title), _digest("likeness", *likeness(record)), _digest("record", record)


def variants(url: str, traits: Traits) -> list[str]:
    """Return the URLs that a record may have if others share its identifier."""
    return [_variant(url, digest) for digest in traits]


def is_variant(url: str) -> bool:
    """Return whether a URL is that of a record that shares its identifier."""
    return "#/" in url and _VARIANT.fullmatch(url) is not None


def base_of(url: str) -> str:
    """Return the URL of the identifier."""
    match = _VARIANT.fullmatch(url) if "#/" in url else None
    return match["base"] if match else url


class SharedNames:
    """The URLs of records whose identifiers came more than once.

    `sound` has the traits of the records by URL. `doubtful` are URLs of which a record cannot be read, or all of them
    where a document breaks off: what is held under such a variant stays there.
    """

    def __init__(
        self, sound: Mapping[str, Sequence[Traits]], held: Iterable[str], doubtful: frozenset[str] | None
    ) -> None:
        self._sound = sound
        self._held = frozenset(held)
        self._doubtful = doubtful
        self._names: dict[tuple[str, str], str] = {}
        for url, found in sound.items():
            self._settle(url, list(dict.fromkeys(found)))

    def knows(self, url: str) -> bool:
        """Return whether a record of this identifier can be read."""
        return bool(self._sound.get(url))

    def name(self, url: str, traits: Callable[[], Traits]) -> str:
        """Under which URL a record is known whose identifier gives it this one."""
        if url not in self._sound and not self._held:
            return url
        told = traits()
        return self._names.get((url, told[-1])) or self._held_name(url, told) or url

    def _settle(self, url: str, distinct: Sequence[Traits]) -> None:
        if len(distinct) < 2:
            return
        counts = Counter(digest for traits in distinct for digest in traits)
        for traits in distinct:
            telling = next((digest for digest in traits if counts[digest] == 1), traits[-1])
            self._names[url, traits[-1]] = _variant(url, telling)

    def _held_name(self, url: str, traits: Traits) -> str | None:
        if not self._held or (self._doubtful is not None and url not in self._doubtful):
            return None
        return next((name for name in variants(url, traits) if name in self._held), None)


def _variant(url: str, digest: str) -> str:
    return f"{url}{'' if '#/' in url else '#'}/shared/{digest}"


def _digest(*said: Any) -> str:
    return body_hash(canonical_json(said)).hex()[:32]
