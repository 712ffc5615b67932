"""What a million tokens cost: by what the user says, or else by a table that comes along, of what providers list.

A model that neither knows has no price: budgets in money then refuse, those in tokens hold.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from rowen.model.models import Price
from rowen.net.target import parse

__all__ = ["known_price", "told_price"]

# A release of a model by its day costs what the model costs, unless the table has it by itself.
_DAY = re.compile(r"-(?:20\d{6}|20\d\d-\d\d-\d\d|latest)$")


def told_price(told: str | None, model: str) -> Price | None:
    """What the user says of a model: `1/4` for all, `small=0.1/0.4,large=2/8` for some; the name goes first."""
    prices = dict(_parts(told)) if told else {}
    return prices.get(model, prices.get(""))


def known_price(url: str, model: str) -> Price | None:
    """What the provider at an address lists for a model, where that is known; its imitators have their own prices."""
    target = parse(url)
    listed = _table().get(target.host, {}) if target.origin.startswith("https://") else {}
    found = listed.get(model) or listed.get(_DAY.sub("", model))
    return Price(*found) if found else None


def _parts(told: str) -> list[tuple[str, Price]]:
    made = []
    for part in filter(None, map(str.strip, told.split(","))):
        name, _, figures = part.rpartition("=")
        sent, _, received = figures.partition("/")
        made.append((name.strip(), Price(float(sent), float(received or sent))))
    return made


@cache
def _table() -> Mapping[str, Mapping[str, tuple[float, float]]]:
    """By host and name; read when a price is first wanted."""
    text = (files("rowen.enrich.data") / "prices.json").read_text("utf-8")
    hosts: Mapping[str, Mapping[str, tuple[float, float]]] = json.loads(text)["hosts"]
    return hosts
