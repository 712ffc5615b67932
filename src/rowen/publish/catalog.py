"""The merged index as a DCAT-AP catalog in Turtle, paged by Hydra; other portals can harvest it."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from rowen.model.changes import Publication
from rowen.model.datasets import CatalogPage, ListedDataset
from rowen.model.text import each
from rowen.model.url import is_link, runs_script
from rowen.publish.feeds import PublicAddresses
from rowen.publish.vocabulary import MEDIA_TYPE_TURTLE, TYPE, Thing, iri, moment_of, name, turtle, unnamed

_WEB = ("http://", "https://")
# DCAT has classes only for these kinds; other records are datasets.
_CLASSES = {"series": "dcat:DatasetSeries", "service": "dcat:DataService"}
_RELATIONS = {"service": "dcat:service"}
MEDIA_TYPE_JSON = "application/json"
DATA_JSON_FOOT = b"\n]}\n"


def catalog_page(addresses: PublicAddresses, page: CatalogPage, *, after: str | None, total: int) -> Publication:
    """Return one page of the catalog: its datasets, and the address of the next page, if there is one."""
    catalog, here = NamedNode(addresses.catalog("dcat")), NamedNode(addresses.catalog("dcat", after))
    # The page needs its own name even if its address equals that of the catalog.
    view = here if after else NamedNode(f"{here.value}#first")
    title = "All datasets" + (f" of {addresses.source}" if addresses.source else "")
    triples = [
        Triple(catalog, TYPE, name("dcat:Catalog")),
        Triple(catalog, name("dcterms:title"), Literal(title)),
        Triple(catalog, name("dcterms:description"), Literal("What the harvested catalogs list, each dataset once.")),
        Triple(view, TYPE, name("hydra:PagedCollection")),
        Triple(view, TYPE, name("hydra:PartialCollectionView")),
        Triple(view, name("hydra:totalItems"), Literal(total)),
        Triple(view, name("hydra:first"), catalog),
    ]
    if page.next is not None:
        triples.append(Triple(view, name("hydra:next"), NamedNode(addresses.catalog("dcat", str(page.next)))))

    def described(listed: ListedDataset) -> list[Triple]:
        relation = _RELATIONS.get(listed.said("record_kind") or "", "dcat:dataset")
        return [Triple(catalog, name(relation), iri(listed.url)), *_dataset(listed)]

    for facts in each(page.datasets, described, name=lambda listed: listed.url):
        triples += facts
    return Publication(turtle(triples), MEDIA_TYPE_TURTLE)


def _dataset(listed: ListedDataset) -> Iterator[Triple]:
    dataset = iri(listed.url)

    def statement(property_name: str, value: Thing) -> Triple:
        return Triple(dataset, name(property_name), value)

    yield statement("rdf:type", name(_CLASSES.get(listed.said("record_kind") or "", "dcat:Dataset")))
    yield statement("dcterms:title", _words(listed.title, listed.language))
    yield statement("dcterms:description", _words(listed.text, listed.language))
    yield statement("dcterms:identifier", Literal(listed.said("identifier") or listed.url))
    for tag in listed.tags:
        yield statement("dcat:keyword", _words(tag, listed.language))
    if page := listed.link("landing_page"):
        yield statement("dcat:landingPage", iri(page))
    if publisher := listed.said("publisher"):
        agent = unnamed(listed.url, "publisher")
        yield statement("dcterms:publisher", agent)
        yield Triple(agent, TYPE, name("foaf:Agent"))
        yield Triple(agent, name("foaf:name"), Literal(publisher))
    for fact, property_name in (("issued", "dcterms:issued"), ("modified", "dcterms:modified")):
        if value := listed.said(fact):
            yield statement(property_name, _date(value))
    yield statement("rowen:updated", moment_of(listed.updated_at))
    for language in listed.listed("languages"):
        if isinstance(language, str) and language:
            yield statement("dcterms:language", Literal(language))
    for number, resource in enumerate(listed.listed("resources")):
        if isinstance(resource, Mapping):
            node = unnamed(listed.url, str(number))
            yield from _distribution(dataset, node, resource, listed.said("licence"))


def _distribution(
    dataset: NamedNode, node: BlankNode, resource: Mapping[str, Any], licence: str | None
) -> Iterator[Triple]:
    yield Triple(dataset, name("dcat:distribution"), node)
    yield Triple(node, TYPE, name("dcat:Distribution"))
    texts = {"name": "dcterms:title", "description": "dcterms:description", "format": "dcterms:format"}
    for fact, property_name in {**texts, "media_type": "dcat:mediaType"}.items():
        if value := resource.get(fact):
            yield Triple(node, name(property_name), Literal(str(value)))
    if is_link(url := str(resource.get("url"))):
        yield Triple(node, name("dcat:accessURL"), iri(url))
    if licence:
        known = licence.startswith(_WEB)
        yield Triple(node, name("dcterms:license"), iri(licence) if known else Literal(licence))


def _words(text: str, language: str | None) -> Literal:
    if language:
        try:
            return Literal(text, language=language)
        except ValueError:
            return Literal(text)
    return Literal(text)


def _date(value: str) -> Literal:
    """Return a date or time as a typed literal; any other text as a plain literal."""
    if len(value) == len("2026-11-18"):
        return Literal(value, datatype=name("xsd:date"))
    return Literal(value, datatype=name("xsd:dateTime")) if "T" in value else Literal(value)


def data_json_head(address: str) -> bytes:
    """Return the beginning of the document, before the first dataset."""
    head = {
        "@context": "https://project-open-data.cio.gov/v1.1/schema/catalog.jsonld",
        "@id": address,
        "@type": "dcat:Catalog",
        "conformsTo": "https://project-open-data.cio.gov/v1.1/schema",
    }
    return json.dumps(head)[:-1].encode() + b', "dataset": [\n'


def data_json_datasets(datasets: Iterable[ListedDataset], *, first: bool) -> bytes:
    """Return datasets as JSON; `first` says that no dataset was written before, so that no comma is needed."""

    def line(listed: ListedDataset) -> str:
        return json.dumps(_json_dataset(listed), ensure_ascii=False)

    lines = ",\n".join(each(datasets, line, name=lambda listed: listed.url))
    return (lines if first or not lines else ",\n" + lines).encode("utf-8", "replace")


def _json_dataset(listed: ListedDataset) -> dict[str, Any]:
    licence = listed.said("licence") or ""
    fields: dict[str, Any] = {
        "@type": "dcat:Dataset",
        "identifier": listed.said("identifier") or listed.url,
        "title": listed.title,
        "description": listed.text,
        "keyword": list(listed.tags),
        "modified": listed.said("modified") or listed.updated_at.isoformat(),
        "landingPage": listed.link("landing_page"),
        "license": None if runs_script(licence) else licence or None,
        "issued": listed.said("issued"),
        "spatial": listed.said("spatial"),
        "temporal": listed.said("temporal"),
        "language": [language for language in listed.listed("languages") if isinstance(language, str)] or None,
        "publisher": {"@type": "org:Organization", "name": name} if (name := listed.said("publisher")) else None,
        "accessLevel": "public",
        "distribution": [_json_distribution(item) for item in listed.listed("resources") if isinstance(item, Mapping)],
    }
    return {name: value for name, value in fields.items() if value is not None}


def _json_distribution(resource: Mapping[str, Any]) -> dict[str, Any]:
    fields = {
        "@type": "dcat:Distribution",
        "title": resource.get("name"),
        "description": resource.get("description"),
        "format": resource.get("format"),
        "mediaType": resource.get("media_type"),
        "downloadURL": url if is_link(url := str(resource.get("url"))) else None,
    }
    return {name: value for name, value in fields.items() if value}
