"""A small shop on loopback whose pages say what they sell, and a model that reads them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rowen import Rowen
from tests.portals.language_model import Model
from tests.portals.site import Page, Site, html

LAMP = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "price": {"type": ["number", "null"]},
        "colour": {"type": ["string", "null"]},
    },
    "required": ["name"],
    "additionalProperties": False,
}


class Shop(Site):
    """`/` leads to `/1`, `/2`, …"""

    def __init__(self, lamps: int = 3) -> None:
        super().__init__()
        self.lamps = lamps
        for number in range(1, lamps + 1):
            self.sell(number, price=10 * number)
        # A list of links has no facts, and is not kept.
        links = tuple(f"/{number}" for number in range(1, lamps + 1))
        self.pages["/"] = Page(html("Shop", "Welcome.", links=links, head="<meta name=robots content=noindex>"))

    def sell(self, number: int, *, price: float, colour: str = "red", boilerplate: str = "", head: str = "") -> None:
        body = (
            f"<!doctype html><html><head><title>Lamp {number}</title>{head}</head><body><nav>{boilerplate}</nav><main>"
            f"<h1>Lamp {number}</h1><p>Name: Lamp {number}</p>"
            f"<p class=offer>Price: <span class=amount>{price}</span></p>"
            f"<p>Colour: {colour}</p></main><footer>{boilerplate}</footer></body></html>"
        )
        self.pages[f"/{number}"] = Page(body.encode())

    def sell_with_markup(self, number: int, *, price: float) -> None:
        """A page whose price stands in its JSON-LD, with other things that change all the time."""
        markup = (
            '<script type="application/ld+json">{"@context": "https://schema.org", "@type": "Product", '
            f'"name": "Lamp {number}", "interactionCount": {price * 7}, '
            f'"offers": {{"price": "{price}", "priceCurrency": "EUR"}}}}</script>'
        )
        self.sell(number, price=price, head=markup)


@contextmanager
def market(lamps: int = 3, kind: str = "openai") -> Iterator[tuple[Shop, Model]]:
    shop, model = Shop(lamps), Model(kind)
    try:
        yield shop, model
    finally:
        shop.close()
        model.close()


async def stock(r: Rowen, shop: Shop, schema: str = "lamp@1", **how: Any) -> None:
    """Keep the shop, with a schema."""
    await r.schemas.add("lamp@1.0.0", LAMP)
    await r.sources.add(f"{shop.url}/", name="shop", options={"sitemap": False, "llms": False})
    await r.extraction.attach("shop", schema, **how)
