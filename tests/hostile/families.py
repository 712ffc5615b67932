"""The worst texts that a caller can write in each language that is read for callers.

A family is a function of a size in characters. To a new operation or option all of them are sent; a new language is
declared here, with the fields that take it.
"""

import json
import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

__all__ = ["LANGUAGES", "TOML", "Language", "languages_of"]

Family = Callable[[int], str]


class Language(NamedTuple):
    """The worst texts of a language, and the names of the fields that take it."""

    fields: re.Pattern[str]
    families: Mapping[str, Family]


def repeated(unit: str, end: str = "") -> Family:
    """A unit over and over, and once what ends it."""
    return lambda size: unit * (size // len(unit)) + end


def nested(start: str, middle: str, end: str) -> Family:
    """Something within itself, as often as the size allows."""

    def made(size: int) -> str:
        depth = max(1, size // (len(start) + len(end)))
        return start * depth + middle + end * depth

    return made


def at_most(size: int, family: Family) -> Family:
    """What is refused when it is long is worst when it is just short enough."""
    return lambda most: family(min(size, most))


def doubled(word: str, depth: int) -> str:
    """A schema of which each definition names the next one twice."""
    names = {f"d{at}": {word: [{"$ref": f"#/$defs/d{at + 1}"}, {"$ref": f"#/$defs/d{at + 1}"}]} for at in range(depth)}
    whole = {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": names}
    return json.dumps({**whole, "$defs": {**names, f"d{depth}": {"type": "string"}}})


def schema(**inner: Any) -> str:
    return json.dumps({"type": "object", "properties": inner})


def cursor(family: Family) -> Family:
    """A cursor that holds such a text where a place in a list should stand."""
    return lambda size: urlsafe_b64encode(b"1234" + family(size * 3 // 4).encode()).decode().rstrip("=")


def shapes(rule: Callable[[int], str], size: int) -> str:
    """Shapes with as many of these rules as the size allows."""
    head = "@prefix sh: <http://www.w3.org/ns/shacl#> . <urn:x> a sh:NodeShape ; sh:targetClass <urn:c> "
    rules = "".join(f"; sh:property [ sh:path <urn:p{at}> ; {rule(at)} ] " for at in range(size // (45 + len(rule(9)))))
    return f"{head}{rules}."


TOML: Mapping[str, Family] = {
    "dotted key": repeated("a.", "a = 1"),
    "quoted key": repeated('"a" . ', "a = 1"),
    "dotted header": lambda size: f"[{'a.' * (size // 2)}a]",
    "dotted list": lambda size: f"[[{'a.' * (size // 2)}a]]",
    "dotted inline table": lambda size: f"x = {{{'a.' * (size // 2)}a = 1}}",
    "dots behind a string": lambda size: 'x = """a"""""\n' + "a." * (size // 2) + "a = 1",
    "long keys": lambda size: "".join(f"{'a.' * 15}b{at} = 1\n" for at in range(size // 40)),
    "long headers": lambda size: "".join(f"[{'a.' * 15}b{at}]\n" for at in range(size // 40)),
    "nested lists": nested("[", "", "]"),
    "nested tables": lambda size: "x = " + nested("{a = ", "1", "}")(size),
    "many sources": lambda size: "".join(
        f'[[source]]\nname = "s{at}"\nkind = "web"\nurl = "https://h{at}.example/"\n' for at in range(size // 55)
    ),
    "sources of one name": repeated('[[source]]\nname = "s"\nkind = "web"\nurl = "https://h.example/"\n'),
    "sources of one portal": lambda size: "".join(
        f'[[source]]\nname = "s{at}"\nkind = "web"\nurl = "https://h.example/"\ntwice = true\n'
        for at in range(size // 70)
    ),
    "unknown keys": lambda size: "[[source]]\n" + "".join(f"k{at} = 1\n" for at in range(size // 10)),
    "empty sources": repeated("[[source]]\n"),
    "one schema many times": lambda size: (
        '[[source]]\nname = "s"\nkind = "web"\nurl = "https://h.example/"\nschemas = ['
        + ", ".join(f'"n{at}@1"' for at in range(size // 12))
        + "]"
    ),
    "long number": lambda size: "x = " + "1" * size,
    "escapes": lambda size: 'x = "' + "\\n" * (size // 2) + '"',
    "open string": repeated('"""\\'),
}

LANGUAGES: Mapping[str, Language] = {
    "XPath": Language(
        re.compile("rules|select|ignore"),
        {
            "nested counts": at_most(1_900, lambda size: "//*[count(" * (size // 13) + "//*" + ")>0]" * (size // 13)),
            "nested counts that fit": lambda size: "//*[count(" * 14 + "//*" + ")>0]" * 14,
            "unions": at_most(1_900, repeated("//*|", "//*")),
            "ancestors": at_most(1_900, repeated("//*/ancestor::*", "")),
            "minus signs": at_most(1_900, lambda size: "/a[" + "-" * size + "1]"),
        },
    ),
    "CSS": Language(
        re.compile("rules|select|ignore"),
        {
            "nested has": at_most(1_900, nested(":has(", "a", ")")),
            "up and down": at_most(1_900, nested(":is(html:has(", "*", ") *)")),
            "descendants": at_most(1_900, repeated("* ", "z")),
            "siblings": at_most(1_900, repeated("* ~ ", "z")),
            "children": at_most(1_900, nested(":nth-child(2n+1 of ", "a", ")")),
            "alternatives": at_most(1_900, lambda size: ":is(" + "a," * (size // 2) + "a)"),
        },
    ),
    "JSON Schema": Language(
        re.compile("definition|^schema$"),
        {
            "doubled anyOf": lambda size: doubled("anyOf", min(400, size // 80)),
            "doubled oneOf": lambda size: doubled("oneOf", min(400, size // 80)),
            "doubled allOf": lambda size: doubled("allOf", min(400, size // 80)),
            "patterns": lambda size: schema(
                **{f"p{at}": {"pattern": rf"\w{{20}}\p{{L}}{{20}}{at}"} for at in range(min(size, 90_000) // 50)}
            ),
            "enumeration": lambda size: schema(a={"enum": list(range(min(size, 90_000) // 8))}),
            "nested": lambda size: '{"type": "object", "properties": {"a": ' * 30 + "{}" + "}}" * 30,
            "itself": lambda size: json.dumps({"type": "object", "properties": {"a": {"anyOf": [{"$ref": "#"}] * 2}}}),
        },
    ),
    "patterns": Language(
        re.compile("include|exclude|only|path|pattern|when"),
        {
            "nested plus": at_most(400, lambda size: f"/(a+)+{'b' * (size // 2)}$/"),
            "repetitions": at_most(400, repeated(r"(\w{9}){9}", "")),
            "expression of repetitions": at_most(400, lambda size: "/" + r"(\w{9}){9}" * (size // 12) + "/"),
            "nested repetitions": lambda size: "/((((a{99}){99}){99}){99}){99}/",
            "nested groups": lambda size: "/" + "(" * (size // 2) + "a" + ")" * (size // 2) + "/",
            "stars": at_most(450, repeated("*a")),
            "many stars": repeated("*a"),
            "brackets": repeated("[!", "]"),
            "braces": repeated("{a,b}"),
        },
    ),
    "SHACL": Language(
        re.compile("shape"),
        {
            "patterns": lambda size: shapes(lambda at: rf'sh:pattern "(\\w{{9}}){{9}}{at}"', size),
            "rules": lambda size: shapes(lambda at: "sh:minCount 1", size),
            "one rule many times": lambda size: (
                "@prefix sh: <http://www.w3.org/ns/shacl#> . "
                '_:r sh:path <urn:p> ; sh:pattern "(\\\\w{9}){9}" . '
                + "".join(f"<urn:{at}> sh:targetClass <urn:c> ; sh:property _:r . " for at in range(size // 50))
            ),
            "long list": lambda size: (
                "@prefix sh: <http://www.w3.org/ns/shacl#> . "
                f"<urn:x> sh:targetClass <urn:c> ; sh:property [ sh:path <urn:p> ; sh:in ( {'1 ' * (size // 2)} ) ] ."
            ),
            "nested": nested("<urn:a> <urn:b> [ ", "", " ]"),
        },
    ),
    "schedule": Language(
        re.compile("cron|every|during|tz|quiet|hours"),
        {
            "rare": lambda size: "0 0 29 2 *",
            "never": lambda size: "0 0 30 2 *",
            "many minutes": lambda size: "1," * (size // 2) + "1 * * * *",
            "many steps": lambda size: "0-59/1," * (size // 7) + "1 * * * *",
            "many windows": lambda size: ",".join(["mon-fri 08:00-18:00"] * max(1, size // 20)),
            "many days": lambda size: ",".join(["mon-sun"] * max(1, size // 8)) + " 08:00-09:00",
            "zone": repeated("Europe/", "Berlin"),
            "long number": repeated("9", "h"),
        },
    ),
    "version": Language(
        re.compile("version|revision"),
        {
            "alternatives": repeated("1.1||", "2"),
            "conditions": repeated(">=1,", "<2"),
            "wildcards": lambda size: "1" + ".x" * (size // 2),
            "operators": repeated("> "),
            "numbers": repeated("1."),
        },
    ),
    "query": Language(
        re.compile("^q$|query|question|text"),
        {
            "phrases": repeated('"a b" '),
            "open phrases": repeated('-"'),
            "prefixes": repeated("a* "),
            "pairs": repeated("漢"),
            "exclusions": repeated("-a "),
            "marks": repeated("\u0301"),
        },
    ),
    "condition": Language(
        re.compile("where|when|condition"),
        {
            "path": at_most(480, repeated("a/", "b<1")),
            "signs": repeated("<=>", "1"),
            "number": at_most(480, lambda size: "a<" + "9" * size),
        },
    ),
    "cursor": Language(
        re.compile("cursor|after|before|token|^from$"),
        {
            "nested": cursor(repeated("[")),
            "objects": cursor(repeated('{"a":')),
            "number": cursor(lambda size: f"[{'1' * size}]"),
            "nothing": repeated("="),
        },
    ),
    "time": Language(
        re.compile("since|until|at$|^at|date|time"),
        {
            "digits": repeated("9"),
            "fractions": lambda size: "2026-01-01T00:00:00." + "1" * size,
            "zones": lambda size: "2026-01-01T00:00:00+" + "0" * size,
            "late": lambda size: "9999-12-31T23:59:59-23:59",
        },
    ),
    "language": Language(
        re.compile("(?i)language"),
        {"subtags": repeated("en-"), "wildcards": repeated("*,"), "qualities": repeated("en;q=0.1,")},
    ),
    "media types": Language(
        re.compile("^Accept$"),
        {
            "qualities": repeated("text/markdown;q=0.1,"),
            "parameters": lambda size: "text/html" + ";q=1" * (size // 4),
            "commas": repeated(","),
        },
    ),
    "entity tags": Language(
        re.compile("^If-None-Match$"),
        {"tags": repeated('W/"a",'), "quotes": repeated('"'), "open": repeated('W/"')},
    ),
    "ranges": Language(
        re.compile("^Range$"),
        {
            "all": lambda size: "bytes=" + "0-," * (size // 3) + "0-",
            "ends": lambda size: "bytes=" + "-1," * (size // 3) + "-1",
            "nested": lambda size: "bytes=" + ",".join(f"{at}-{size - at}" for at in range(size // 12)),
            "digits": lambda size: "bytes=0-" + "9" * size,
        },
    ),
    "JSON": Language(
        re.compile("options|record|data|body"),
        {
            "nested lists": repeated("["),
            "nested objects": repeated('{"a":'),
            "closed lists": nested("[", "", "]"),
            "digits": repeated("1"),
            "fraction": lambda size: "0." + "1" * size,
            "exponent": lambda size: "1e" + "9" * min(size, 400),
        },
    ),
    "address": Language(
        re.compile("url|address|target|endpoint|origin|host"),
        {
            "folders": lambda size: "https://host.example/" + "a/../" * (size // 5),
            "parameters": lambda size: "https://host.example/?" + "a=b&" * (size // 4),
            "escapes": lambda size: "https://host.example/" + "%25" * (size // 3),
            "labels": lambda size: "https://" + "a." * (size // 2) + "example/",
            "international": lambda size: "https://" + "ü" * min(size, 20_000) + ".example/",
            "users": lambda size: "https://" + "a@" * (size // 2) + "host.example/",
        },
    ),
}


def languages_of(field: str) -> list[str]:
    """The languages that a field of this name takes."""
    return [name for name, language in LANGUAGES.items() if language.fields.search(field)]
