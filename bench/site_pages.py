"""Documentation as a site that changes: copied, touched, edited, and replaced by another release."""

import os
import re
import shutil
import subprocess
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from turbohtml import parse

__all__ = [
    "Releases",
    "copy_site",
    "differing",
    "disguise",
    "edit",
    "pages",
    "releases",
    "replace_site",
    "sample",
    "touch",
]

ADDED = "<p>A paragraph that was not here before: number {} of the edited pages, and it says so.</p>"
SIMULATED_EDITS = 54
_SHELL = ".navheader,.navfooter,script,style"
_CLASS = re.compile(r'(?<=\sclass=")[^"]*(?=")')
_ROLE = re.compile(r'\s(?:role|aria-label)="[^"]*"')
_TAG = re.compile(r"(</?)(?:nav|header|footer|main|aside|article)\b")


def pages(site: Path) -> list[Path]:
    """The pages of a site."""
    return sorted(site.rglob("*.html"))


def copy_site(source: Path, target: Path) -> None:
    """Copy the pages, with their times; links to elsewhere become files."""
    for path in sorted(source.rglob("*")):
        if path.is_file() and path.suffix in (".html", ".css", ".js", ".txt"):
            place = target / path.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, place)


def replace_site(source: Path, target: Path) -> None:
    """Put another release in the place of a site."""
    shutil.rmtree(target)
    copy_site(source, target)


def touch(site: Path) -> None:
    """New times for all pages: new ETags, same bytes."""
    for path in pages(site):
        _later(path)


def edit(chosen: Sequence[Path]) -> None:
    """Add one paragraph in the middle of each page."""
    for number, path in enumerate(chosen):
        text = path.read_text(errors="surrogateescape")
        ends = [found.end() for found in re.finditer("</p>", text)]
        place = ends[len(ends) // 2]
        path.write_text(text[:place] + ADDED.format(number) + text[place:], errors="surrogateescape")
        _later(path)


def _later(path: Path) -> None:
    when = path.stat().st_mtime + 3600
    os.utime(path, (when, when))


def disguise(site: Path) -> None:
    """Hide the template from anyone who knows generators by name: no telling class, role or element."""
    for path in pages(site):
        text = path.read_text(errors="surrogateescape")
        text = _CLASS.sub(lambda found: f"c{zlib.crc32(found[0].encode()):x}", text)
        text = _TAG.sub(r"\1div", _ROLE.sub("", text))
        facts = path.stat()
        path.write_text(text, errors="surrogateescape")
        os.utime(path, (facts.st_mtime, facts.st_mtime))


def differing(old: Path, new: Path) -> tuple[int, int]:
    """Of the pages in both releases: how many differ in bytes, and how many in the words of their main part.

    The main part is taken by what is known of these two templates, not by our reader, which is on trial here.
    """
    both = [(path, new / path.relative_to(old)) for path in pages(old) if (new / path.relative_to(old)).is_file()]
    bodies = [(one.read_bytes(), other.read_bytes()) for one, other in both]
    changed = [pair for pair in bodies if pair[0] != pair[1]]
    return len(changed), sum(_words(one) != _words(other) for one, other in changed)


def _words(body: bytes) -> list[str]:
    page = parse(body.decode("utf-8", "replace"))
    for shell in page.select(_SHELL):
        shell.decompose()
    found = page.select_one("div.body") or page.select_one("body")
    return found.text.split() if found else []


class Releases(NamedTuple):
    """Two releases of a documentation, and whether they are real."""

    old: Path
    new: Path
    told: str


def releases(docs: Path, folder: Path) -> Releases:
    """Two releases of the package that holds the pages; where the mirror has but one, the second is made up."""
    package, versions = _package(docs), []
    if package:
        listing = subprocess.run(["apt-cache", "madison", package], capture_output=True, text=True, check=False).stdout
        versions = list(dict.fromkeys(line.split("|")[1].strip() for line in listing.splitlines()))
    if len(versions) >= 2:
        try:
            new, old = (_unpacked(package, version, docs, folder) for version in versions[:2])
        except (OSError, subprocess.CalledProcessError):
            pass
        else:
            return Releases(old, new, f"{package} {versions[1]} → {versions[0]}")
    return _made_up(docs, folder)


def _package(docs: Path) -> str:
    owner = ["dpkg", "-S", docs.resolve() / "index.html"]
    return subprocess.run(owner, capture_output=True, text=True, check=False).stdout.partition(":")[0]


def _unpacked(package: str, version: str, docs: Path, folder: Path) -> Path:
    place = folder / version
    place.mkdir(parents=True)
    subprocess.run(["apt-get", "download", f"{package}={version}"], cwd=place, capture_output=True, check=True)
    [archive] = place.glob("*.deb")
    subprocess.run(["dpkg-deb", "-x", archive, place], check=True)
    found = place / docs.resolve().relative_to("/")
    if not found.is_dir():
        raise OSError(f"{package} {version} has no {docs}")
    return found


def _made_up(docs: Path, folder: Path) -> Releases:
    old, new = folder / "old", folder / "new"
    copy_site(docs, old)
    copy_site(docs, new)
    for path in pages(new):
        text = path.read_text(errors="surrogateescape")
        stamp = "<footer><p>Built on 2 January 2031 from revision 8f3c2e1.</p></footer>"
        path.write_text(text.replace("</body>", f"{stamp}</body>"), errors="surrogateescape")
        _later(path)
    edit(sample(new, SIMULATED_EDITS))
    return Releases(old, new, "made up: a build stamp in every footer, a paragraph in 54 pages")


def sample(site: Path, count: int) -> list[Path]:
    """So many pages with some text, evenly spread."""
    long = [path for path in pages(site) if path.read_bytes().count(b"</p>") > 4]
    return long[:: max(1, len(long) // count)][:count]
