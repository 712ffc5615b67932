"""Package registries on loopback: a site that answers as an index does, and changes between runs."""

import io
import json
import tarfile
from typing import Any

from tests.portals.site import Page, Site

JSON = {"Content-Type": "application/json"}


def tgz(files: dict[str, str], top: str = "package") -> bytes:
    """A gzipped tar archive, as releases are."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"{top}/{name}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return packed.getvalue()


class PythonIndex(Site):
    """Tells of Python packages; `yanked` and `gone` releases as an index does."""

    def __init__(self) -> None:
        super().__init__()
        self.releases: dict[str, dict[str, Any]] = {}

    def publish(
        self, name: str, version: str, *, files: dict[str, str] | None = None, yanked: bool = False, **info: Any
    ) -> None:
        """Publish a release; the one published last is what the index calls the latest."""
        told = {"name": name, "version": version, "description_content_type": "text/markdown", "yanked": yanked, **info}
        urls = [{"packagetype": "bdist_wheel", "url": f"{self.url}/{name}.whl", "yanked": yanked}]
        if files is not None:
            path = f"/files/{name}-{version}.tar.gz"
            self.pages[path] = Page(tgz(files, f"{name}-{version}"), headers={"Content-Type": "application/gzip"})
            urls.append({"packagetype": "sdist", "url": self.url + path, "yanked": yanked})
        releases = self.releases.setdefault(name, {})
        releases[version] = urls
        self.answer(f"/pypi/{name}/{version}/json", {"info": told, "urls": urls})
        self.answer(f"/pypi/{name}/json", {"info": told, "urls": urls, "releases": releases})

    def answer(self, path: str, told: Any) -> None:
        """Let a path answer with JSON."""
        self.pages[path] = Page(json.dumps(told).encode(), headers=JSON)


class NpmRegistry(Site):
    """Tells of packages for npm."""

    def __init__(self) -> None:
        super().__init__()
        self.packages: dict[str, dict[str, Any]] = {}

    def publish(
        self, name: str, version: str, *, files: dict[str, str] | None = None, tag: str = "latest", **manifest: Any
    ) -> None:
        """Publish a release under a tag."""
        path = f"/tarballs/{name.replace('/', '-')}-{version}.tgz"
        self.pages[path] = Page(tgz(files or {}), headers={"Content-Type": "application/octet-stream"})
        told = {"name": name, "version": version, "dist": {"tarball": self.url + path}, **manifest}
        package = self.packages.setdefault(name, {"name": name, "versions": {}, "dist-tags": {}})
        package["versions"][version] = told
        package["dist-tags"][tag] = version
        package["readme"] = (files or {}).get("README.md", "")
        place = "/" + name.replace("/", "%2F")
        self.pages[place] = Page(json.dumps(package).encode(), headers=JSON)
        self.pages[f"{place}/{version}"] = Page(json.dumps(told).encode(), headers=JSON)
