"""Package registries on loopback: a site that answers as an index does, and changes between runs."""

import io
import json
import tarfile
from random import Random
from typing import Any

from tests.portals.site import WORDS, ChangingSite, Page, Site

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


class ChangingPackage:
    """A registry with one package, and its documentation."""

    address = "pypi:hay"
    kind = "pypi"

    def __init__(self) -> None:
        self.index = PythonIndex()
        self.docs = ChangingSite()
        self.index.publish("hay", "1.0", description="# Hay\n")

    def change(self, chance: Random) -> None:
        match chance.randrange(6):
            case 0 | 1:
                self._publish(chance)
            case 2:
                self.index.down = not self.index.down
            case 3:
                self.docs.down = not self.docs.down
            case _:
                self.docs.change(chance)

    def _publish(self, chance: Random) -> None:
        version = f"{chance.randrange(3)}.{chance.randrange(3)}{chance.choice(['', '', 'rc1'])}"
        readme = chance.choice(["", "# Hay\n\n" + " ".join(chance.choices(WORDS, k=30))])
        links = chance.choice([{}, {"Documentation": self.docs.address}, {"Docs": self.docs.url + "/p0"}])
        name = chance.choice(["README.md", "CHANGES.md"])
        files = chance.choice([None, {name: f"# {version}\n\n{chance.choice(WORDS)}\n"}])
        # A file of a release never changes once it is published.
        version += f".{len(self.index.pages)}"
        self.index.publish("hay", version, description=readme, project_urls=links, files=files)

    def ail(self, chance: Random) -> None:
        self.index.down = self.docs.down = False
        self.index.publish("hay", f"3.{len(self.index.pages)}", project_urls={"Documentation": self.docs.address})
        self.docs.ail(chance)

    def recover(self) -> None:
        self.docs.recover()

    def heal(self) -> None:
        self.index.down = False
        self.docs.heal()
        self.docs.put("/p0", "Docs", "Here.", links=("/p1", "/p2"))

    def close(self) -> None:
        self.index.close()
        self.docs.close()
