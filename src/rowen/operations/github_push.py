"""GitHub's webhooks: which sources an event is about."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from rowen.model.sources import Source

__all__ = ["sources_of"]

_BRANCH, _TAG = "refs/heads/", "refs/tags/"
# Which option of a source takes in what an event is about.
_PARTS: Mapping[str, str] = {
    "issues": "issues",
    "release": "releases",
    "gollum": "wiki",
    "discussion": "discussions",
}


def sources_of(event: str, payload: Any, sources: Iterable[Source]) -> Iterator[Source]:
    """The sources that read what an event has changed; none for what is no event of a repository."""
    repository = payload.get("repository") if isinstance(payload, dict) else None
    if not isinstance(repository, dict):
        return
    places = {
        place for name in ("html_url", "clone_url", "ssh_url", "git_url") if (place := _place(repository.get(name)))
    }
    for source in sources:
        read = {"github": _github_reads, "git": _git_reads}.get(source.kind)
        if read is not None and read(source, event, payload, repository, places):
            yield source


def _github_reads(
    source: Source, event: str, payload: dict[str, Any], repository: dict[str, Any], places: set[str]
) -> bool:
    from rowen.connectors.github.options import RepositoryAddress

    address = RepositoryAddress.parse(source.url)
    if address is None or _place(address.repository) not in places:
        return False
    if event != "push":
        return bool(source.options.get(_PARTS.get(event, "")))
    # The tail may begin with a ref that has slashes: any of those that it may be will do.
    refs = [ref for ref, _ in address.places()] if address.tail else [""]
    return any(_is_of(ref, payload, repository) for ref in refs)


def _git_reads(
    source: Source, event: str, payload: dict[str, Any], repository: dict[str, Any], places: set[str]
) -> bool:
    ref = str(source.options.get("ref") or "")
    return event == "push" and _place(source.url) in places and _is_of(ref, payload, repository)


def _is_of(ref: str, payload: dict[str, Any], repository: dict[str, Any]) -> bool:
    """Whether a push moved this branch or tag, the default one if none is named."""
    pushed = str(payload.get("ref") or "")
    if ref in ("", "HEAD"):
        return pushed == f"{_BRANCH}{repository.get('default_branch')}"
    return pushed in (ref, _BRANCH + ref, _TAG + ref)


def _place(url: Any) -> str:
    """Host and path of a repository, whatever way leads there; empty for what is none."""
    if not isinstance(url, str):
        return ""
    plain = url.removeprefix("git+")
    if "://" not in plain and ":" in plain:
        plain = "ssh://" + plain.replace(":", "/", 1)
    try:
        parts = urlsplit(plain)
        return f"{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path.removesuffix('.git')}".casefold()
    except ValueError:
        return ""
