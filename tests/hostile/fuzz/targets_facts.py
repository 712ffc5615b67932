"""What takes facts from a page's markup: data for programs, and rules that say where fields stand."""

from turbohtml import parse

from rowen.content.structured import FieldRule, facts_in, rules_for, values_of
from rowen.enrich.extract.conversation import parsed
from rowen.enrich.extract.grounding import evidence
from rowen.enrich.extract.structured import filled, wanted_names
from rowen.enrich.schemas.validation import violations
from rowen.enrich.schemas.versions import bundled_schemas
from rowen.model.items import FactsWanted
from tests.hostile.fuzz.harness import target

SCHEMAS = {one.name: one for one in bundled_schemas()}
PRODUCT = SCHEMAS["product"]
RULES = (
    *(("product.name", "h1"), ("product.price", ".amount | number"), ("product.tags", "li | all")),
    *(("product.sku", "//p[@class='sku']"), ("product.brand", "dd | after Brand:"), ("product.image", "meta @content")),
)
_PAGE = b"""<!DOCTYPE html><html><head><title>Lamp</title><meta property="og:title" content="Lamp">
<meta property="product:price:amount" content="19.50"><script type="application/ld+json">{"@context":
"https://schema.org", "@graph": [{"@type": "Product", "name": "Lamp", "offers": [{"price": "19,50", "priceCurrency":
"EUR"}], "aggregateRating": {"ratingValue": 4.5}}]}</script><script id="__NEXT_DATA__" type="application/json">{"props":
{"product": {"name": "Lamp", "price": 19.5, "sku": "A-1"}}}</script></head><body><div itemscope
itemtype="https://schema.org/Product"><h1 itemprop="name">Lamp</h1><p class=sku>A-1</p><span class=amount
itemprop=price content="19.50">19,50 EUR</span></div><table><tr><th>Name</th><th>Price</th></tr><tr><td>Lamp</td>
<td>19.50</td></tr></table><dl><dt>Brand:</dt><dd>Brand: Aurora</dd><dt>SKU</dt><dd>A-1</dd></dl></body></html>"""
_MARKUP = (
    *(
        b'<script type="application/ld+json">',
        b"</script>",
        b'<script id="__NEXT_DATA__">',
        b"<div itemscope>",
        b"<dt>",
    ),
    *(b' itemprop="price"', b' itemref="a"', b' id="a"', b" itemscope", b"<table>", b"<tr>", b"<td>", b"<dl>", b"<dd>"),
    *(b'"@graph": [', b'"@type": ["Product"', b'"offers": {', b'"price": ', b'"name": ', b"{", b"}", b"[", b"]", b'"'),
    *(b"1e999", b"NaN", b"-Infinity", b"9" * 400, b"null", b"[[[[[[[[", b'{"a":' * 20, b"\\ud800", b"\x00", b"19,5,0"),
)
_PLACES = (
    *(b".a", b"#b", b" > ", b"//p", b"[@class='x']", b" | ", b"number", b"after ", b" @content", b":not(", b":has(*)"),
    *(
        b":nth-child(2n+1)",
        b"[a^=b]",
        b"*",
        b", ",
        b"~ ",
        b"+ ",
        b"ancestor::*",
        b"following::*",
        b"count(",
        b")",
        b"[",
    ),
    *(b"string-length(", b"translate(", b"//*//*", b"|", b"::before", b"\\", b"\x00", b"(", b"concat('a','b')"),
)


@target("facts/markup", seeds=[_PAGE], tokens=_MARKUP)
def markup(data: bytes) -> None:
    page = parse(data.decode("utf-8", "replace"))
    wanted = FactsWanted(wanted_names(list(SCHEMAS.values())), RULES)
    found = facts_in(page, wanted)
    for schema in SCHEMAS.values():
        known = filled(schema, [one for one in found.get("nodes", ()) if isinstance(one, dict)])
        assert not known.is_enough or not violations(schema, known.data), "what is enough is valid"


@target(
    "facts/rules",
    seeds=[b".product .amount | number", b"//span[@itemprop='price']", b"meta[itemprop=price] @content", b"li | all"],
    tokens=_PLACES,
    allowed=(ValueError,),
)
def rules(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    page = parse(_PAGE.decode())
    values_of(page, [("a", text)])
    FieldRule.parse(text).read(page)


@target("facts/learning", seeds=[_PAGE], tokens=_MARKUP)
def learning(data: bytes) -> None:
    html = data.decode("utf-8", "replace")
    values = {"name": "Lamp", "price": 19.5, "sku": "A-1", "brand": "Aurora", "reviews": 0, "rating": float(10**30)}
    for name, rule in rules_for(html, values).items():
        if rule is not None:
            assert values_of(parse(html), [(name, rule)]), "a rule that was learned finds something"


@target(
    "facts/answers",
    seeds=[
        b'{"name": "Lamp", "price": 19.5}',
        b'Here:\n```json\n{"name": "Lamp"}\n```',
        b'{"name": "Lamp", "tags": [1,',
    ],
    tokens=[*_MARKUP, b"```", b"```json\n", b"\n", b'"price":'],
)
def answers(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    found = parsed(text)
    violations(PRODUCT, found)
    evidence(PRODUCT.definition, found, text)
