"""Hostile values by class, for any field of any operation."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any, NamedTuple

from tests.hostile.families import LANGUAGES, languages_of

__all__ = ["CLASSES", "Canaries", "Verbatim", "as_json", "as_text", "values_of"]

LONG_CHARS = 100_000
DEPTH = 10_000
_FAMILY_CHARS = 20_000


class Verbatim(NamedTuple):
    """JSON that no value of Python stands for."""

    text: str


class Canaries(NamedTuple):
    """Secrets that no answer may contain, and places that nobody may be led to."""

    file: str
    data_file: str
    variable: str
    port: int


def _cursor(value: Any) -> str:
    return urlsafe_b64encode(b"1234" + json.dumps(value).encode()).decode().rstrip("=")


Made = Callable[[Canaries], list[Any]]

CLASSES: Mapping[str, Made] = {
    "NUL": lambda _: ["\0", "guide\0", "a\0b"],
    "half of a surrogate pair": lambda _: ["\ud800", "a\udfffb", "\udc00\ud800"],
    "control letters": lambda _: ["\x1b[31mred", "\x07\x08\x7f", "\u0085", "\ufeffguide", "\ufffe"],
    "letters that turn the text around": lambda _: ["\u202egnp.exe", "a\u2066b", "\u200b", "\U000e0041"],
    "line breaks": lambda _: ["a\r\nSet-Cookie: x=1", "\n", "a\u2028b", "guide\r\n\r\n<b>"],
    "numbers": lambda _: [10**18, 10**400, -1, 0, 2**31, 2**63, -(2**63) - 1, 0.1, 1e308, -0.0],
    "numbers that are none": lambda _: [
        *(Verbatim(text) for text in ("NaN", "Infinity", "-Infinity", "1e999", "-1e999")),
        *("NaN", "inf", "1e5", "0x10", "１２", "1_000", "²"),
    ],
    "nothing": lambda _: ["", " ", "\u3000", None, [], {}],
    "long": lambda _: ["a" * LONG_CHARS, "é" * (LONG_CHARS // 2), "a " * (LONG_CHARS // 2), "😀" * (LONG_CHARS // 4)],
    "deep": lambda _: [
        Verbatim("[" * DEPTH + "]" * DEPTH),
        Verbatim('{"a":' * DEPTH + "1" + "}" * DEPTH),
        Verbatim('[{"a":' * (DEPTH // 2) + "[]" + "}]" * (DEPTH // 2)),
    ],
    "wrong type": lambda _: [True, 1, [[]], [None], {"a": None}, ["guide", 1], {"guide": []}, "guide"],
    "huge list": lambda _: [
        ["a"] * 20_000,
        list(range(20_000)),
        {str(at): at for at in range(10_000)},
        [{"name": "a", "url": "https://192.0.2.1/"}] * 2_000,
    ],
    "folder": lambda _: ["../..", "..%2f..%2fetc", "%2e%2e", "..\\..", "/etc/passwd", "~root", ".", "guide/../tokens"],
    "file": lambda it: [
        "file:///etc/passwd",
        f"file:{it.file}",
        f"FILE://{it.file}",
        f"git+file://{it.file}",
        f"\tfile:{it.data_file}",
        it.file,
        "/proc/self/environ",
        "file://localhost/etc/passwd",
    ],
    "scheme": lambda it: [
        f"HTTP:/{it.file}",
        "javascript:alert(1)",
        "data:text/html,<script>",
        "ext::sh -c id",
        "gopher://192.0.2.1/",
        "pkg:x/../..",
        "-oProxyCommand=id",
        "pypi:../../x",
    ],
    "network": lambda it: [
        f"http://127.0.0.1:{it.port}/canary",
        f"HTTP://localhost:{it.port}/canary",
        f"http://2130706433:{it.port}/",
        f"http://0x7f.1:{it.port}/",
        f"http://[::ffff:127.0.0.1]:{it.port}/",
        f"http://user:pass@127.0.0.1:{it.port}/",
        f"git+http://127.0.0.1:{it.port}/x.git",
        f"ckan:http://127.0.0.1:{it.port}/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]/",
        "//127.0.0.1/",
    ],
    "secret": lambda it: ["env:HOME", f"env:{it.variable}", f"file:{it.file}", f"Bearer env:{it.variable}"],
    "format": lambda it: ["%s%n%x", "{0.__class__}", "{{7*7}}", f"${{{it.variable}}}", f"${it.variable}", "`id`", "%"],
    "SQL": lambda _: [
        "' or 1=1 --",
        "'; drop table source; --",
        "1) union select hash from access_token --",
        "%' or '%'='",
        "\\'",
        "$$",
        "' || pg_read_file('/etc/passwd') || '",
        "a' & !b | (c:*",
    ],
    "markup": lambda _: [
        "<script>taken()</script>",
        "\"'><img src=x onerror=taken()>",
        "]]><x>",
        '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><x>&e;</x>',
        "-->",
        "[x](javascript:taken())",
    ],
    "expression": lambda _: [
        "//*[",
        "> . <urn:x",
        "} ; drop all ; insert data {",
        ":is(",
        "(?P<a>(a+)+$",
        "[[[",
        "price<<=1",
        "* * * * * *",
        ">=1,<",
        "title\u0000<1",
    ],
    "cursor": lambda _: [
        *(_cursor(one) for one in (None, [], [0], ["a", "b"], [10**30, "x"], {"a": 1}, "9999-99-99", [["a"]])),
        "====",
        "AAAA",
        "é",
        "0-0-0",
    ],
    "time": lambda _: [
        "9999-12-31T23:59:59-23:59",
        "0000-00-00",
        "10000-01-01",
        "-5d",
        f"{10**20}d",
        "0001-01-01T00:00:00+23:59",
        "2026-02-30",
    ],
}
"""All classes but one: `values_of` adds the worst texts of the languages."""

LANGUAGE = "language"


def values_of(name: str, field: str, canaries: Canaries) -> list[Any]:
    """The values of a class for a field of this name."""
    if name != LANGUAGE:
        return CLASSES[name](canaries)
    taken = languages_of(field) or sorted(LANGUAGES)
    return [made(_FAMILY_CHARS) for language in taken for made in LANGUAGES[language].families.values()]


def as_json(value: Any) -> str:
    """JSON with what is to stand in it verbatim; halves of pairs are escaped."""
    parts: list[str] = []

    def marked(one: Any) -> Any:
        match one:
            case Verbatim():
                parts.append(one.text)
                return f"\ue000{len(parts) - 1}\ue000"
            case dict():
                return {key: marked(inner) for key, inner in one.items()}
            case list() if any(isinstance(inner, dict | list | Verbatim) for inner in one):
                return [marked(inner) for inner in one]
        return one

    text = json.dumps(marked(value))
    for at, part in enumerate(parts):
        text = text.replace(f'"\\ue000{at}\\ue000"', part)
    return text


def as_text(value: Any) -> str:
    """How a value is written where there is text alone: in an address, a form or a header."""
    match value:
        case str():
            return value
        case Verbatim():
            return value.text
        case list() if all(isinstance(one, str) for one in value):
            return ",".join(value)
    return as_json(value)


def shaped(value: Any, random: Random) -> Any:
    """The value itself or, as often, within a list or an object."""
    forms: list[Callable[[Any], Any]] = [
        lambda one: one,
        lambda one: one,
        lambda one: [one],
        lambda one: {"a": one},
        lambda one: {as_text(one)[:1_000]: "a"},
        lambda one: {"url": one, "name": "guide", "kind": "web"},
    ]
    return random.choice(forms)(value)


def classes() -> Iterator[str]:
    """The names of all classes."""
    yield from CLASSES
    yield LANGUAGE
