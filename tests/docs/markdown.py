"""What stands in the project's own pages: their code blocks, their links, their headings."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ANY_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


class Step(NamedTuple):
    """A command of a page, and the lines that it is said to show."""

    command: str
    shown: list[str]


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of a page in one language."""
    return [body for found, body in _BLOCK.findall(page.read_text("utf-8")) if found == language]


def steps(block: str) -> Iterator[Step]:
    """The commands of a console block; `$ ` begins one, `> ` carries it on."""
    step: Step | None = None
    for line in block.splitlines():
        if line.startswith("$ "):
            if step:
                yield step
            step = Step(line[2:], [])
        elif step and not step.shown and line[:2] in (">", "> "):
            step = Step(f"{step.command}\n{line[2:]}", [])
        elif step:
            step.shown.append(line)
    if step:
        yield step


def prose(page: Path) -> str:
    """A page without its code."""
    return _CODE.sub("", _ANY_BLOCK.sub("", page.read_text("utf-8")))


def links(page: Path) -> list[str]:
    """Where a page leads."""
    return _LINK.findall(prose(page))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as they are derived from them."""
    headings = _HEADING.findall(_ANY_BLOCK.sub("", page.read_text("utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def rows(page: Path) -> list[list[str]]:
    """The cells of all tables of a page."""
    lines = [line for line in page.read_text("utf-8").splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
