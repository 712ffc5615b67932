"""Records as a national portal has them: 15.6 kB each on average, most of it about their files."""

from itertools import accumulate
from random import Random
from typing import Any, NamedTuple

__all__ = ["large_records"]

_RECORDS = 800
_SYLLABLES = [first + second for first in "bcdfghjlmnprstvz" for second in ("a", "e", "i", "o", "u", "ão", "ar", "en")]
_FORMATS = ("CSV", "JSON", "XLS", "PDF", "HTML", "API")


def large_records() -> list[dict[str, Any]]:
    """Records that differ in size and words as real ones do: few words are common, most are rare."""
    chance = Random(17)
    words = _Words(chance)
    organizations = [_organization(words) for _ in range(60)]
    return [_record(chance, words, chance.choice(organizations)) for _ in range(_RECORDS)]


class _Words:
    """A language of 20,000 words, the tenth of which is a tenth as frequent as the first."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._all = ["".join(chance.choices(_SYLLABLES, k=chance.randint(1, 4))) for _ in range(20_000)]
        self._weights = list(accumulate(1 / rank for rank in range(1, len(self._all) + 1)))

    def some(self, count: int) -> str:
        return " ".join(self._chance.choices(self._all, cum_weights=self._weights, k=count))

    def sentences(self, count: int) -> str:
        return " ".join(f"{self.some(self._chance.randint(8, 20)).capitalize()}." for _ in range(count))

    def uuid(self) -> str:
        return f"{self._chance.getrandbits(128):032x}"


def _organization(words: _Words) -> dict[str, Any]:
    return {
        "id": words.uuid(),
        "name": words.some(2),
        "title": words.some(5),
        "description": words.sentences(20),
        "type": "organization",
        "state": "active",
        "is_organization": True,
        "approval_status": "approved",
        "created": "2016-12-05T16:38:34.970628",
        "revision_id": words.uuid(),
        "image_url": "",
    }


class _Series(NamedTuple):
    """What the files of one dataset have in common."""

    package: str
    folder: str
    description: str
    name: str


def _record(chance: Random, words: _Words, organization: dict[str, Any]) -> dict[str, Any]:
    series = _Series(words.uuid(), words.uuid(), words.sentences(3), words.some(6))
    resources = [_resource(chance, words, series, at) for at in range(chance.randint(2, 19))]
    return {
        "title": words.some(7),
        "notes": "\r\n\r\n".join(words.sentences(3) for _ in range(3)),
        "url": words.some(3),
        "license_title": "Creative Commons Attribution",
        "license_id": "cc-by",
        "isopen": True,
        "version": "1.0",
        "license_url": "https://creativecommons.org/licenses/by/4.0/",
        "private": False,
        "author": words.some(3),
        "author_email": "",
        "maintainer": words.some(3),
        "maintainer_email": "",
        "creator_user_id": words.uuid(),
        "metadata_created": "2020-06-11T15:07:30.680724",
        "state": "active",
        "type": "dataset",
        "groups": [],
        "relationships_as_object": [],
        "relationships_as_subject": [],
        "revision_id": words.uuid(),
        "organization": organization,
        "owner_org": organization["id"],
        "num_resources": len(resources),
        "tags": [
            {"vocabulary_id": None, "state": "active", "id": words.uuid(), "name": tag, "display_name": tag}
            for tag in words.some(3).split()
        ],
        "extras": [{"key": key, "value": words.uuid()} for key in ("harvest_object_id", "harvest_source_id", "guid")],
        "resources": resources,
    }


def _resource(chance: Random, words: _Words, series: _Series, position: int) -> dict[str, Any]:
    return {
        "mimetype": None,
        "mimetype_inner": None,
        "cache_url": None,
        "cache_last_updated": None,
        "hash": "",
        "name": f"{series.name} {words.some(3)}",
        "size": None,
        "resource_type": None,
        "description": f"{series.description} {words.sentences(chance.randint(0, 2))}",
        "format": chance.choice(_FORMATS),
        "url": f"https://files.example/{series.folder}/{words.some(2)}.csv",
        "package_id": series.package,
        "created": "2022-11-24T22:13:18.078527",
        "state": "active",
        "last_modified": None,
        "position": position,
        "revision_id": words.uuid(),
        "url_type": None,
        "id": words.uuid(),
    }
