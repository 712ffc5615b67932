"""The OpenAPI document as a page for people: one file without a script, which works offline."""

import json
from collections.abc import Iterator
from html import escape
from typing import Any

__all__ = ["docs_page"]

_STYLE = """
:root { color-scheme: light dark; --line: color-mix(in srgb, currentColor 18%, transparent); }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1.5rem; }
h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
details { border: 1px solid var(--line); border-radius: .4rem; margin: .5rem 0; padding: .4rem .8rem; }
summary { cursor: pointer; } summary code { font-weight: 600; }
pre { overflow-x: auto; padding: .7rem; border: 1px solid var(--line); border-radius: .4rem; font-size: .85rem; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
td, th { text-align: left; vertical-align: top; padding: .25rem .6rem .25rem 0; border-top: 1px solid var(--line); }
.scope { float: right; opacity: .7; font-size: .85rem; } nav a { margin-right: .8rem; }
"""


def docs_page(document: dict[str, Any], *, base: str = "") -> str:
    """The page; `base` is the path that all addresses begin with."""
    groups: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            tag = operation.get("tags", ["other"])[0]
            groups.setdefault(tag, []).append(_operation(base + path, method.upper(), operation))
    links = "".join(f'<a href="#{escape(tag)}">{escape(tag)}</a>' for tag in groups)
    parts = (f'<h2 id="{escape(tag)}">{escape(tag)}</h2>{"".join(group)}' for tag, group in groups.items())
    about = "".join(f"<p>{escape(one)}</p>" for one in document["info"]["description"].strip().split("\n\n"))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Rowen API</title>'
        '<link rel="icon" href="data:,">'
        f"<style>{_STYLE}</style></head><body><h1>Rowen API {escape(document['info']['version'])}</h1>{about}"
        f'<p><a href="{escape(base)}/api/openapi.json">openapi.json</a></p><nav>{links}</nav>'
        f"{''.join(parts)}</body></html>"
    )


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    scope = operation.get("x-scope")
    told = f'<span class="scope">{escape(scope)}</span>' if scope else '<span class="scope">open</span>'
    about = "".join(f"<p>{escape(one)}</p>" for one in operation.get("description", "").split("\n\n"))
    return (
        f"<details><summary><code>{method} {escape(path)}</code> {escape(operation.get('summary', ''))}{told}</summary>"
        f"{about}{_parameters(operation)}{''.join(_examples(operation))}</details>"
    )


def _parameters(operation: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(one['name'])}</code></td><td>{escape(one['in'])}</td>"
        f"<td>{escape(one.get('description', ''))}</td></tr>"
        for one in operation.get("parameters", ())
    )
    return f"<table><tr><th>parameter</th><th>in</th><th>meaning</th></tr>{rows}</table>" if rows else ""


def _examples(operation: dict[str, Any]) -> Iterator[str]:
    for status, answer in operation["responses"].items():
        for media, content in answer.get("content", {}).items():
            if status < "300" and "example" in content:
                shown = content["example"]
                text = shown if isinstance(shown, str) else json.dumps(shown, indent=2, ensure_ascii=False)
                yield f"<p>{escape(status)} <code>{escape(media)}</code></p><pre>{escape(text)}</pre>"
