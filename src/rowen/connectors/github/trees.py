"""Trees by the API: one request where the answer is whole, folder by folder where it was cut short."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

from rowen.connectors.git.listing import RepositoryScope, TreeEntry
from rowen.connectors.github.api import GitHubApi, decoded
from rowen.errors import SourceError
from rowen.model.url import segment

__all__ = ["Trees"]

# Each folder within a folder is a call within a call. What lies deeper makes the listing incomplete.
_DEEPEST = 100
MOST_TREES = 10_000
"""Questions for one commit: trees may hold each other in ever new names, and the API allows 5,000 an hour."""


class Trees:
    """Lists the regular files of a commit; `whole` turns false when some could not be listed."""

    def __init__(self, api: GitHubApi, scope: RepositoryScope) -> None:
        self.whole = True
        self._asked = 0
        self._api = api
        self._scope = scope

    async def entries(self, tree: str, folder: str = "") -> list[TreeEntry]:
        """The files below a tree, in the order of the answers."""
        found: list[TreeEntry] = []
        async with aclosing(self._walk(tree, folder, 0)) as walk:
            async for entries in walk:
                found += entries
        return found

    async def _walk(self, tree: str, folder: str, depth: int) -> AsyncGenerator[list[TreeEntry]]:
        rows, truncated = await self._rows(tree, "?recursive=1")
        if not truncated:
            yield list(self._files(rows, folder))
            return
        rows, truncated = await self._rows(tree)
        self.whole = self.whole and not truncated and depth < _DEEPEST
        yield list(self._files(rows, folder))
        for row in rows:
            path = _path(row, folder)
            if path and row.get("type") == "tree" and depth < _DEEPEST and self._scope.enters(path):
                async with aclosing(self._walk(str(row.get("sha")), f"{path}/", depth + 1)) as below:
                    async for entries in below:
                        yield entries

    async def _rows(self, tree: str, query: str = "") -> tuple[list[Any], bool]:
        self._asked += 1
        if self._asked > MOST_TREES:
            raise SourceError(
                f"The repository has more than {MOST_TREES:,} folders that GitHub does not list at once.",
                hint="The options path, include and exclude choose a part of it.",
            )
        response = await self._api.get(f"git/trees/{segment(tree)}{query}")
        answer = decoded(response)
        if not isinstance(answer, dict) or not isinstance(answer.get("tree"), list):
            raise SourceError(f"{response.url} answered with something that is no tree.")
        return answer["tree"], bool(answer.get("truncated"))

    def _files(self, rows: list[Any], folder: str) -> Iterator[TreeEntry]:
        """Links and submodules are no files; a row that cannot be read may have been one."""
        for row in rows:
            path, size = _path(row, folder), row.get("size") if isinstance(row, dict) else None
            if path is None or not isinstance(row.get("sha"), str):
                self.whole = False
            elif row.get("type") == "blob" and str(row.get("mode")).startswith("100"):
                yield TreeEntry(path, row["sha"], size if isinstance(size, int) else None)


def _path(row: Any, folder: str) -> str | None:
    path = row.get("path") if isinstance(row, dict) else None
    if not isinstance(path, str) or not path:
        return None
    try:
        path.encode()
    except UnicodeEncodeError:
        return None
    return folder + path
