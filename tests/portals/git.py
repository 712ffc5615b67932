"""A real bare repository that changes at random."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.portals.folder import BROKEN, ENDINGS, WORDS

FILE, SCRIPT, LINK, SUBMODULE = "100644", "100755", "120000", "160000"
ALWAYS = {"always.md": (FILE, b"# Always\n\nSomething is always here.\n")}
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d" * 32 + b"\nsize 12345\n"
NAME = "Marta <marta@example.org>"
WHO = {"GIT_COMMITTER_NAME": "Marta", "GIT_COMMITTER_EMAIL": "marta@example.org"}


class Tree:
    """The files of a branch: path → mode and content."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[str, bytes]] = dict(ALWAYS)
        self.ailing: dict[str, tuple[str, bytes]] = {}

    def put(self, path: str, body: str | bytes, mode: str = FILE) -> None:
        self.files[path] = (mode, body.encode() if isinstance(body, str) else body)

    def deeds(self) -> list[Callable[[Random], None]]:
        return [self.create, self.create, self.edit, self.edit, self.rename, self.delete, self.spoil, self.point]

    def create(self, chance: Random) -> None:
        folder = chance.choice(["", "a/", "b/", "a/deep/", "Ünï cöde/", "100% odd?#/"])
        path = folder + chance.choice(WORDS) + chance.choice(ENDINGS)
        self.put(path, "\n\n".join(self._paragraph(chance) for _ in range(chance.randrange(8))))

    def edit(self, chance: Random) -> None:
        if path := self._any(chance):
            self.put(
                path, self.files[path][1] + b"\n\n" + self._paragraph(chance).encode(), chance.choice([FILE, SCRIPT])
            )

    def rename(self, chance: Random) -> None:
        if path := self._any(chance):
            self.files[chance.choice(WORDS) + chance.choice(ENDINGS)] = self.files.pop(path)

    def delete(self, chance: Random) -> None:
        if path := self._any(chance):
            del self.files[path]

    def spoil(self, chance: Random) -> None:
        """A file turns into something that cannot be read, or is none at all."""
        if path := self._any(chance):
            self.put(path, BROKEN if chance.random() < 0.5 else LFS)

    def point(self, chance: Random) -> None:
        if path := self._any(chance):
            self.put(path, "always.md", LINK)

    def ail(self, chance: Random) -> None:
        self.create(chance)
        if path := self._any(chance):
            self.ailing[path] = self.files[path]
            self.put(path, BROKEN)

    def recover(self) -> None:
        for path, file in self.ailing.items():
            if path in self.files and self.files[path][1] == BROKEN:
                self.files[path] = file
        self.ailing.clear()

    def heal(self) -> None:
        self.recover()
        for path, (mode, body) in self.files.items():
            if b"\x00" in body or body.startswith(LFS[:40]):
                self.put(path, f"# Healed\n\nThis was {path}.\n", mode)

    def _any(self, chance: Random) -> str | None:
        paths = sorted(self.files.keys() - ALWAYS.keys())
        return chance.choice(paths) if paths else None

    def _paragraph(self, chance: Random) -> str:
        if chance.random() < 0.2:
            return f"## {chance.choice(WORDS).title()} {chance.randrange(9)}"
        return " ".join(chance.choice(WORDS) for _ in range(chance.randrange(3, 60))) + "."


class Repository(Tree):
    """A bare repository; what is put becomes visible with the next commit."""

    kind = "git"

    def __init__(self, folder: Path, *, filters: bool = True) -> None:
        super().__init__()
        self.folder = folder
        self.count = 0
        self.git("init", "--quiet", "--bare", "--initial-branch=main", str(folder))
        if filters:
            self.git("config", "uploadpack.allowFilter", "true")
        self.address = f"git+file://{folder}"

    def git(self, *arguments: str, told: bytes = b"") -> str:
        environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", **WHO}
        place = ["--git-dir", str(self.folder)] if arguments[0] != "init" else []
        done = subprocess.run(["git", *place, *arguments], input=told, capture_output=True, env=environment, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode().strip()

    def commit(self, branch: str = "main", *, forced: bool = False) -> str:
        """Commit the files as they are; a forced one has no history."""
        self.count += 1
        stream = [
            b"commit refs/heads/%s\ncommitter %s %d +0000\ndata 4\nmore\n"
            % (branch.encode(), NAME.encode(), self.count)
        ]
        if not forced and (self.folder / "refs/heads" / branch).exists():
            stream.append(b"from refs/heads/%s^0\n" % branch.encode())
        stream.append(b"deleteall\n")
        for path, (mode, body) in self.files.items():
            raw = path.encode("utf-8", "surrogateescape")
            if mode == SUBMODULE:
                stream.append(b"M 160000 %s %s\n" % (body, raw))
            else:
                stream.append(b"M %s inline %s\ndata %d\n%s\n" % (mode.encode(), raw, len(body), body))
        self.git("fast-import", "--quiet", "--force", told=b"".join(stream))
        return self.git("rev-parse", f"refs/heads/{branch}")

    def change(self, chance: Random) -> None:
        deed: Callable[[Random], None] = chance.choice([*self.deeds(), lambda _: None])
        deed(chance)
        self.commit(forced=chance.random() < 0.2)

    def ail(self, chance: Random) -> None:
        super().ail(chance)
        self.commit()

    def recover(self) -> None:
        super().recover()
        self.commit()

    def heal(self) -> None:
        super().heal()
        self.commit()

    def close(self) -> None:
        shutil.rmtree(self.folder)
