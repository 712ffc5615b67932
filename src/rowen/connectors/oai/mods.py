"""A record in MODS, the schema of the Library of Congress, becomes a dataset."""

from collections.abc import Iterator
from dataclasses import replace

from rowen.connectors.catalog.dataset import Dataset, Resource
from rowen.connectors.catalog.dates import iso
from rowen.connectors.catalog.languages import codes_of
from rowen.connectors.catalog.record_kinds import kind_named
from rowen.connectors.catalog.resources import format_of
from rowen.connectors.oai.wording import described, worded
from rowen.formats.xml import Element, local, said

__all__ = ["is_mods", "of_mods"]

_HREF = "{http://www.w3.org/1999/xlink}href"
_TITLE = ("nonSort", "title", "subTitle", "partNumber", "partName")
_ISSUED = ("dateIssued", "copyrightDate", "dateCreated", "dateOther")


def is_mods(tree: Element) -> bool:
    """Whether an element is a MODS record; a collection of them holds one here."""
    return local(tree.tag) == "mods"


def of_mods(bare: Dataset, tree: Element, language: str | None) -> Dataset:
    """What the record says of the thing itself; what it says of related things is left to its source."""
    titles, texts = list(_titles(tree)), tree.findall("{*}abstract") + tree.findall("{*}tableOfContents")
    wording = worded(titles[:1], texts, preferred=language)
    people = [name for one in tree.findall("{*}name") if (name := _name(one))]
    addresses = list(_addresses(tree))
    return replace(
        bare,
        title=wording.title,
        description=described(wording, titles, texts, people),
        tags=tuple(_told(tree, "{*}subject/{*}topic", "{*}genre", "{*}subject/{*}name/{*}namePart")),
        publisher=next(_told(tree, "{*}originInfo/{*}publisher", "{*}originInfo/{*}agent/{*}namePart"), ""),
        licence=_licence(tree),
        languages=codes_of(_told(tree, "{*}language/{*}languageTerm")),
        issued=_issued(tree),
        modified=max(filter(None, map(iso, _told(tree, "{*}originInfo/{*}dateModified"))), default=bare.modified),
        spatial="; ".join(
            dict.fromkeys(_told(tree, "{*}subject/{*}geographic", "{*}subject/{*}cartographics/{*}coordinates"))
        ),
        temporal=", ".join(_told(tree, "{*}subject/{*}temporal")),
        landing_page=next(iter(addresses), ""),
        resources=tuple(_files(tree)),
        record_kind=kind_named(_told(tree, "{*}genre", "{*}typeOfResource")) or bare.record_kind,
        texts=wording.others,
    )


def _told(tree: Element, *paths: str) -> Iterator[str]:
    yield from dict.fromkeys(words for path in paths for one in tree.findall(path) if (words := said(one)))


def _titles(tree: Element) -> Iterator[Element]:
    """The titles, each put together from its parts; the one without a type is the main one."""
    for info in sorted(tree.findall("{*}titleInfo"), key=lambda one: one.get("type") is not None):
        parts = [words for name in _TITLE for one in info.findall(f"{{*}}{name}") if (words := said(one))]
        title = Element(info.tag, dict(info.attrib))
        title.text = " ".join(parts)
        if parts:
            yield title


def _name(one: Element) -> str:
    """A name as it is shown, else its parts: the family's before the given one."""
    if shown := said(one.find("{*}displayForm")):
        return shown
    parts = {part.get("type", ""): said(part) for part in reversed(one.findall("{*}namePart"))}
    if "family" in parts:
        return ", ".join(filter(None, (parts["family"], parts.get("given", ""))))
    return parts.get("", "") or parts.get("given", "")


def _licence(tree: Element) -> str:
    conditions = tree.findall("{*}accessCondition")
    linked = (one.get(_HREF, "") for one in conditions)
    return next(filter(None, linked), "") or next(_told(tree, "{*}accessCondition"), "")


def _issued(tree: Element) -> str | None:
    for name in _ISSUED:
        dates = tree.findall(f"{{*}}originInfo/{{*}}{name}")
        # One of several is marked as the one to sort by; an end is no date of issue.
        dates = sorted((one for one in dates if one.get("point") != "end"), key=lambda one: one.get("keyDate") is None)
        if found := next(filter(None, (iso(said(one)) for one in dates)), None):
            return found
    return None


def _addresses(tree: Element) -> Iterator[str]:
    """Where the thing is found: its page before others, then its identifiers."""
    urls = [one for one in tree.findall("{*}location/{*}url") if one.get("access") != "preview"]
    for url in sorted(urls, key=lambda one: ("primary" not in one.get("usage", ""), one.get("access") == "raw object")):
        if said(url).startswith(("http://", "https://")):
            yield said(url)
    for one in tree.findall("{*}identifier"):
        words = said(one)
        if words.startswith(("http://", "https://")):
            yield words
        elif one.get("type", "").lower() == "doi" and words:
            yield f"https://doi.org/{words.removeprefix('doi:')}"
        elif one.get("type", "").lower() in ("hdl", "handle") and words:
            yield f"https://hdl.handle.net/{words.removeprefix('hdl:')}"


def _files(tree: Element) -> Iterator[Resource]:
    forms = list(_told(tree, "{*}physicalDescription/{*}internetMediaType"))
    urls = [one for one in tree.findall("{*}location/{*}url") if one.get("access") == "raw object"]
    form = forms[0] if len(forms) == len(urls) == 1 else ""
    for url in urls:
        yield Resource(said(url), name=url.get("displayLabel", ""), format=format_of(form, said(url)), media_type=form)
