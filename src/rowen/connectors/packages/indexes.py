"""Reads releases from the JSON responses of Python and npm registries."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from rowen.model.url import quoted, segment

_NO_README = frozenset({"", "unknown", "error: no readme data found!"})

_PYPI_FIELDS = (
    *("author", "author_email", "maintainer", "requires_python", "requires_dist", "classifiers", "yanked_reason"),
)
# Longest name of a licence; many packages put the whole text into this field.
_LONGEST_LICENCE = 100

_NPM_FIELDS = ("author", "engines", "dependencies", "peerDependencies", "deprecated", "type", "types")
_REPOSITORY = re.compile(r"^(?:git\+)?(?:https?|git|ssh)://(?:git@)?(?P<place>[^#]+?)(?:\.git)?(?:#.*)?$")
_SHORT = re.compile(r"^(?:(?P<host>github|gitlab|bitbucket):)?(?P<place>[\w.-]+/[\w.-]+)$")
_HOSTS = {None: "github.com", "github": "github.com", "gitlab": "gitlab.com", "bitbucket": "bitbucket.org"}


@dataclass(frozen=True, slots=True)
class Release:
    """The metadata of one release; `archive` is the URL of its source archive."""

    name: str
    version: str
    summary: str = ""
    readme: str = field(default="", repr=False)
    readme_type: str = ""
    keywords: tuple[str, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    archive: str | None = None
    record: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_readme(self) -> bool:
        """Return whether the registry has the README text; some registries have only a placeholder."""
        return self.readme.strip().lower() not in _NO_README


@dataclass(frozen=True, slots=True)
class Offer:
    """The available releases, without withdrawn releases; `tags` maps names such as `latest` to releases."""

    versions: tuple[str, ...]
    latest: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


class PyPIIndex:
    """A Python package index; `base` is the URL that pip uses, with or without `/simple`."""

    def __init__(self, base: str) -> None:
        bare = base.rstrip("/")
        self._base = bare.removesuffix("/simple") if bare.endswith("/simple") else bare.removesuffix("/pypi")

    def project(self, name: str) -> str:
        """Return the URL of the metadata of all releases."""
        return f"{self._base}/pypi/{segment(name)}/json"

    def release(self, name: str, version: str) -> str:
        """Return the URL of the metadata of one release."""
        return f"{self._base}/pypi/{segment(name)}/{segment(version)}/json"

    def is_answer(self, answer: dict[str, Any]) -> bool:
        """Return whether a response comes from a Python package index."""
        return bool(plain_text(table(answer.get("info")).get("version")))

    def offer(self, answer: dict[str, Any]) -> Offer:
        """Return the releases with at least one file that was not yanked; if there are none, the newest release."""
        usable = tuple(
            version
            for version, files in table(answer.get("releases")).items()
            if isinstance(files, list) and any(isinstance(file, dict) and not file.get("yanked") for file in files)
        )
        return Offer(usable or (plain_text(table(answer["info"]).get("version")),))

    def read(self, answer: dict[str, Any], version: str) -> Release | None:
        """Return a release; None if the response describes another version."""
        info = table(answer["info"])
        if plain_text(info.get("version")) != version:
            return None
        urls = answer.get("urls")
        files = [file for file in urls if isinstance(file, dict)] if isinstance(urls, list) else []
        licence = plain_text(info.get("license_expression")) or plain_text(info.get("license"))
        if not licence or len(licence) > _LONGEST_LICENCE:
            names = [name for name in _texts(info.get("classifiers")) if name.startswith("License ::")]
            licence = names[0].rpartition(" :: ")[2] if names else ""
        links = {
            "Homepage": plain_text(info.get("home_page")),
            "Documentation": plain_text(info.get("docs_url")),
            **{label: plain_text(url) for label, url in table(info.get("project_urls")).items()},
        }
        return Release(
            plain_text(info.get("name")),
            version,
            plain_text(info.get("summary")),
            info["description"] if isinstance(info.get("description"), str) else "",
            plain_text(info.get("description_content_type")),
            _texts(info.get("keywords")),
            {label: url for label, url in links.items() if url},
            next((plain_text(file.get("url")) for file in files if file.get("packagetype") == "sdist"), "") or None,
            {
                **{name: info[name] for name in _PYPI_FIELDS if info.get(name)},
                "licence": licence,
                "published": min((plain_text(file.get("upload_time_iso_8601")) for file in files), default=""),
                "yanked": info.get("yanked") is True,
            },
        )


class NpmIndex:
    """An npm registry."""

    def __init__(self, base: str) -> None:
        self._base = base.rstrip("/")

    def project(self, name: str) -> str:
        """Return the URL of the metadata of all releases."""
        return f"{self._base}/{quoted(name, safe='@')}"

    def release(self, name: str, version: str) -> str:
        """Return the URL of the metadata of one release."""
        return f"{self.project(name)}/{segment(version)}"

    def is_answer(self, answer: dict[str, Any]) -> bool:
        """Return whether a response comes from an npm registry."""
        return bool(plain_text(answer.get("name"))) and not answer.keys().isdisjoint({"versions", "version", "time"})

    def offer(self, answer: dict[str, Any]) -> Offer:
        """Return the releases; deprecated releases only if there are no others."""
        releases = table(answer.get("versions"))
        usable = [version for version, release in releases.items() if not table(release).get("deprecated")]
        tags = {tag: plain_text(version) for tag, version in table(answer.get("dist-tags")).items()}
        tags = {tag: version for tag, version in tags.items() if version in releases}
        return Offer(tuple(usable or releases), tags.get("latest"), tags)

    def read(self, answer: dict[str, Any], version: str) -> Release | None:
        """Return a release, from metadata of the package or of this release; None if another version is described."""
        release = table(table(answer.get("versions")).get(version)) if "versions" in answer else answer
        if plain_text(release.get("version")) != version:
            return None
        is_latest = table(answer.get("dist-tags")).get("latest") == version
        readme = release.get("readme") or (answer.get("readme") if is_latest else "")
        licence = release.get("license") or release.get("licenses")
        licence = licence[0] if isinstance(licence, list) and licence else licence
        links = {
            "Homepage": plain_text(release.get("homepage")),
            "Repository": _repository(release.get("repository")),
            "Issues": plain_text(table(release.get("bugs")).get("url")) or plain_text(release.get("bugs")),
        }
        return Release(
            plain_text(release.get("name")) or plain_text(answer.get("name")),
            version,
            plain_text(release.get("description")),
            readme if isinstance(readme, str) else "",
            "text/markdown",
            _texts(release.get("keywords")),
            {label: url for label, url in links.items() if url},
            plain_text(table(release.get("dist")).get("tarball")) or None,
            {
                **{name: release[name] for name in _NPM_FIELDS if release.get(name)},
                "licence": plain_text(table(licence).get("type")) or plain_text(licence),
                "published": plain_text(table(answer.get("time")).get(version)),
            },
        )


def _repository(declared: Any) -> str:
    """Return the web URL of a repository that is declared in short form, as a git URL or as a web URL."""
    place = plain_text(table(declared).get("url")) or plain_text(declared)
    if short := _SHORT.match(place):
        return f"https://{_HOSTS[short['host']]}/{short['place']}"
    repository = _REPOSITORY.match(place)
    return f"https://{repository['place']}" if repository else ""


Index: TypeAlias = PyPIIndex | NpmIndex


def plain_text(value: Any) -> str:
    """Return a string with normalised whitespace; an empty string for other values, which registries do not reject."""
    return " ".join(value.split()) if isinstance(value, str) else ""


def _texts(value: Any) -> tuple[str, ...]:
    """Return the strings in a list; a single string is split at commas or spaces."""
    if isinstance(value, str):
        value = value.split("," if "," in value else None)
    return tuple(text for part in value if (text := plain_text(part))) if isinstance(value, list) else ()


def table(value: Any) -> dict[str, Any]:
    """Return a JSON object; an empty one for any other value."""
    return value if isinstance(value, dict) else {}
