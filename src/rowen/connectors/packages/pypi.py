"""The JSON answers of a Python package index."""

from typing import Any

from rowen.connectors.packages.release import Offer, Release, plain_text, table, texts
from rowen.model.url import segment

__all__ = ["PyPIIndex"]

_KEPT = ("author", "author_email", "maintainer", "requires_python", "requires_dist", "classifiers", "yanked_reason")
# Names of licences; many packages put the whole text into this field.
_LONGEST_LICENCE = 100


class PyPIIndex:
    """Reads a Python package index; its base is the address that pip uses, with or without `/simple`."""

    def __init__(self, base: str) -> None:
        bare = base.rstrip("/")
        self._base = bare.removesuffix("/simple") if bare.endswith("/simple") else bare.removesuffix("/pypi")

    def project(self, name: str) -> str:
        """Where all releases are told."""
        return f"{self._base}/pypi/{segment(name)}/json"

    def release(self, name: str, version: str) -> str:
        """Where one release is told."""
        return f"{self._base}/pypi/{segment(name)}/{segment(version)}/json"

    def is_answer(self, told: dict[str, Any]) -> bool:
        """Whether this is an answer of such an index."""
        return bool(plain_text(table(told.get("info")).get("version")))

    def offer(self, told: dict[str, Any]) -> Offer:
        """The releases with at least one file that was not yanked."""
        usable = tuple(version for version, files in table(told.get("releases")).items() if _usable(files))
        newest = table(told["info"])
        return Offer(usable or (plain_text(newest.get("version")),))

    def read(self, told: dict[str, Any], version: str) -> Release | None:
        """One release; None if the answer is about another one."""
        info = table(told["info"])
        if plain_text(info.get("version")) != version:
            return None
        urls = told.get("urls")
        files = [file for file in urls if isinstance(file, dict)] if isinstance(urls, list) else []
        kept = {name: info[name] for name in _KEPT if info.get(name)}
        return Release(
            plain_text(info.get("name")),
            version,
            plain_text(info.get("summary")),
            info["description"] if isinstance(info.get("description"), str) else "",
            plain_text(info.get("description_content_type")),
            texts(info.get("keywords")),
            _links(info),
            next((plain_text(file.get("url")) for file in files if file.get("packagetype") == "sdist"), "") or None,
            {**kept, "licence": _licence(info), "published": _published(files), "yanked": info.get("yanked") is True},
        )


def _usable(files: Any) -> bool:
    return isinstance(files, list) and any(isinstance(file, dict) and not file.get("yanked") for file in files)


def _published(files: list[dict[str, Any]]) -> str:
    return min((plain_text(file.get("upload_time_iso_8601")) for file in files), default="")


def _licence(info: dict[str, Any]) -> str:
    """The licence by its name; some packages declare its whole text instead."""
    told = plain_text(info.get("license_expression")) or plain_text(info.get("license"))
    if told and len(told) <= _LONGEST_LICENCE:
        return told
    names = [name for name in texts(info.get("classifiers")) if name.startswith("License ::")]
    return names[0].rpartition(" :: ")[2] if names else ""


def _links(info: dict[str, Any]) -> dict[str, str]:
    declared = {label: plain_text(url) for label, url in table(info.get("project_urls")).items()}
    old = {"Homepage": plain_text(info.get("home_page")), "Documentation": plain_text(info.get("docs_url"))}
    return {label: url for label, url in {**old, **declared}.items() if url}
