"""A record in MARC 21, as libraries exchange it in XML, becomes a dataset."""

import re
from collections.abc import Iterator
from dataclasses import replace

from rowen.connectors.catalog.dataset import Dataset, Resource
from rowen.connectors.catalog.dates import iso
from rowen.connectors.catalog.languages import codes_of, wordings
from rowen.connectors.catalog.resources import format_of
from rowen.formats.xml import Element, local, said

__all__ = ["is_marc", "of_marc"]

_NAMES = ("100", "110", "111", "700", "710", "711")
_PUBLISHED = ("264", "260")
_YEAR = re.compile(r"(?<!\d)(1[0-9]{3}|20[0-9]{2})(?!\d)")
_LANGUAGE = slice(35, 38)  # field 008: three letters, as in the list of MARC
_ENTERED = slice(7, 11)  # field 008: the first year
_TYPE = slice(6, 7)  # of the leader: what is described
_KINDS = {"a": "document", "t": "document", "e": "map", "f": "map"}  # language material, cartographic material
_AT_ITS_END = " /:;,=."


def is_marc(tree: Element) -> bool:
    """Whether an element is a MARC record: one with fields by numbers."""
    return local(tree.tag) == "record" and tree.find("{*}datafield") is not None


def of_marc(bare: Dataset, tree: Element, language: str | None) -> Dataset:
    """What the record says."""
    fields = _Fields(tree)
    title = " ".join(fields.words("245", "a")[:1] + fields.words("245", "b") + fields.words("245", "np"))
    people = list(dict.fromkeys(one for tag in _NAMES for one in fields.words(tag, "a")))
    texts = fields.texts("520", "a") or fields.texts("500", "a")
    makers = f"By {'; '.join(people)}." if people else ""
    wording = wordings(title, "\n\n".join(filter(None, [*texts, makers])), preferred=language)
    links = list(fields.links())
    return replace(
        bare,
        title=wording.title,
        description=wording.description,
        tags=tuple(one for tag in ("650", "653", "655") for one in fields.words(tag, "a")),
        publisher=next((one for tag in _PUBLISHED for one in fields.words(tag, "b")), ""),
        licence=next(iter(fields.texts("540", "u") + fields.texts("540", "a")), ""),
        languages=codes_of(fields.languages()),
        issued=fields.issued(),
        spatial="; ".join(dict.fromkeys(fields.words("651", "a"))),
        temporal=", ".join(dict.fromkeys(fields.words("648", "a"))),
        landing_page=next((one.url for one in links), ""),
        resources=tuple(links),
        record_kind=_KINDS.get(fields.leader()[_TYPE], bare.record_kind),
    )


class _Fields:
    """The fields of a record by their numbers."""

    def __init__(self, tree: Element) -> None:
        self._tree = tree

    def words(self, tag: str, codes: str) -> list[str]:
        """What the subfields of these codes say, without the marks that part them from the next one."""
        return [words for text in self.texts(tag, codes) if (words := text.rstrip(_AT_ITS_END))]

    def texts(self, tag: str, codes: str) -> list[str]:
        """What the subfields of these codes say."""
        parts = (part for field in self._fields(tag) for part in field.findall("{*}subfield"))
        return [words for part in parts if part.get("code", "") in codes and (words := said(part))]

    def links(self) -> Iterator[Resource]:
        """Where the thing is found; a DOI where no link is given."""
        linked = False
        for field in self._fields("856"):
            parts = {part.get("code", ""): said(part) for part in reversed(field.findall("{*}subfield"))}
            if url := parts.get("u", ""):
                linked = True
                media_type = parts.get("q", "") if "/" in parts.get("q", "") else ""
                name = parts.get("y") or parts.get("3") or parts.get("z") or ""
                yield Resource(url, name=name, format=format_of(media_type, url), media_type=media_type)
        for field in self._fields("024") if not linked else ():
            parts = {part.get("code", ""): said(part) for part in field.findall("{*}subfield")}
            if parts.get("2", "").lower() == "doi" and parts.get("a"):
                yield Resource(f"https://doi.org/{parts['a'].removeprefix('doi:')}")

    def languages(self) -> list[str]:
        """The languages of the text, three letters each, which may be written in a row."""
        told = [words[at : at + 3] for words in self.words("041", "a") for at in range(0, len(words), 3)]
        coded = self._control("008")[_LANGUAGE].strip()
        return list(dict.fromkeys(told or ([coded] if coded.isalpha() else [])))

    def leader(self) -> str:
        """The fixed part before all fields, in which positions count."""
        found = self._tree.find("{*}leader")
        return "".join(found.itertext()) if found is not None else ""

    def issued(self) -> str | None:
        """The year of publication."""
        told = [*(one for tag in _PUBLISHED for one in self.words(tag, "c")), self._control("008")[_ENTERED]]
        years = (_YEAR.search(words) for words in told)
        return next((iso(year[1]) for year in years if year), None)

    def _fields(self, tag: str) -> Iterator[Element]:
        return (field for field in self._tree.findall("{*}datafield") if field.get("tag") == tag)

    def _control(self, tag: str) -> str:
        fields = (field for field in self._tree.findall("{*}controlfield") if field.get("tag") == tag)
        # The positions count: nothing is stripped.
        return next(("".join(field.itertext()) for field in fields), "")
