"""The JSON answers of a registry for npm."""

import re
from typing import Any

from rowen.connectors.packages.release import Offer, Release, plain_text, table, texts
from rowen.model.url import quoted, segment

__all__ = ["NpmIndex"]

_KEPT = ("author", "engines", "dependencies", "peerDependencies", "deprecated", "type", "types")
_REPOSITORY = re.compile(r"^(?:git\+)?(?:https?|git|ssh)://(?:git@)?(?P<place>[^#]+?)(?:\.git)?(?:#.*)?$")
_SHORT = re.compile(r"^(?:(?P<host>github|gitlab|bitbucket):)?(?P<place>[\w.-]+/[\w.-]+)$")
_HOSTS = {"github": "github.com", "gitlab": "gitlab.com", "bitbucket": "bitbucket.org"}


class NpmIndex:
    """Reads a registry for npm."""

    def __init__(self, base: str) -> None:
        self._base = base.rstrip("/")

    def project(self, name: str) -> str:
        """Where all releases are told."""
        return f"{self._base}/{quoted(name, safe='@')}"

    def release(self, name: str, version: str) -> str:
        """Where one release is told."""
        return f"{self.project(name)}/{segment(version)}"

    def is_answer(self, told: dict[str, Any]) -> bool:
        """Whether this is an answer of such a registry."""
        return bool(plain_text(told.get("name"))) and ("versions" in told or "version" in told or "time" in told)

    def offer(self, told: dict[str, Any]) -> Offer:
        """The releases; deprecated ones only if there are no others."""
        releases = table(told.get("versions"))
        usable = [version for version, release in releases.items() if not table(release).get("deprecated")]
        named = {tag: plain_text(version) for tag, version in table(told.get("dist-tags")).items()}
        tags = {tag: version for tag, version in named.items() if version in releases}
        return Offer(tuple(usable or releases), tags.get("latest"), tags)

    def read(self, told: dict[str, Any], version: str) -> Release | None:
        """One release, of the answer for all or of its own."""
        release = table(table(told.get("versions")).get(version)) if "versions" in told else told
        if plain_text(release.get("version")) != version:
            return None
        newest = table(told.get("dist-tags")).get("latest") == version
        readme = release.get("readme") or (told.get("readme") if newest else "")
        kept = {name: release[name] for name in _KEPT if release.get(name)}
        return Release(
            plain_text(release.get("name")) or plain_text(told.get("name")),
            version,
            plain_text(release.get("description")),
            readme if isinstance(readme, str) else "",
            "text/markdown",
            texts(release.get("keywords")),
            _links(release),
            plain_text(table(release.get("dist")).get("tarball")) or None,
            {**kept, "licence": _licence(release), "published": plain_text(table(told.get("time")).get(version))},
        )


def _licence(release: dict[str, Any]) -> str:
    told = release.get("license") or release.get("licenses")
    told = told[0] if isinstance(told, list) and told else told
    return plain_text(table(told).get("type")) or plain_text(told)


def _links(release: dict[str, Any]) -> dict[str, str]:
    links = {
        "Homepage": plain_text(release.get("homepage")),
        "Repository": _repository(release.get("repository")),
        "Issues": plain_text(table(release.get("bugs")).get("url")) or plain_text(release.get("bugs")),
    }
    return {label: url for label, url in links.items() if url}


def _repository(told: Any) -> str:
    """The web address of a repository, whose declaration may be short, or meant for git."""
    place = plain_text(table(told).get("url")) or plain_text(told)
    if found := _SHORT.match(place):
        return f"https://{_HOSTS[found['host'] or 'github']}/{found['place']}"
    found = _REPOSITORY.match(place)
    return f"https://{found['place']}" if found else ""
