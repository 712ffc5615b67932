"""The merged index as a data.json (Project Open Data 1.1), written as it is read."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from rowen.model.datasets import ListedDataset
from rowen.model.text import each
from rowen.model.url import is_link, runs_script

__all__ = ["FOOT", "MEDIA_TYPE_JSON", "head", "written"]

MEDIA_TYPE_JSON = "application/json"
FOOT = b"\n]}\n"


def head(address: str) -> bytes:
    """What stands before the first dataset."""
    told = {
        "@context": "https://project-open-data.cio.gov/v1.1/schema/catalog.jsonld",
        "@id": address,
        "@type": "dcat:Catalog",
        "conformsTo": "https://project-open-data.cio.gov/v1.1/schema",
    }
    return json.dumps(told)[:-1].encode() + b', "dataset": [\n'


def written(datasets: Iterable[ListedDataset], *, first: bool) -> bytes:
    """Some datasets; `first` says that none was written before them."""
    lines = list(each(datasets, lambda one: json.dumps(_dataset(one), ensure_ascii=False), name=lambda one: one.url))
    return ((("" if first else ",\n") + ",\n".join(lines)) if lines else "").encode("utf-8", "replace")


def _dataset(listed: ListedDataset) -> dict[str, Any]:
    licence = listed.said("licence") or ""
    told: dict[str, Any] = {
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
        "language": [one for one in listed.listed("languages") if isinstance(one, str)] or None,
        "publisher": {"@type": "org:Organization", "name": name} if (name := listed.said("publisher")) else None,
        "accessLevel": "public",
        "distribution": [_distribution(one) for one in listed.listed("resources") if isinstance(one, Mapping)],
    }
    return {name: value for name, value in told.items() if value is not None}


def _distribution(resource: Mapping[str, Any]) -> dict[str, Any]:
    told = {
        "@type": "dcat:Distribution",
        "title": resource.get("name"),
        "description": resource.get("description"),
        "format": resource.get("format"),
        "mediaType": resource.get("media_type"),
        "downloadURL": url if is_link(url := str(resource.get("url"))) else None,
    }
    return {name: value for name, value in told.items() if value}
