"""A folder that changes at random."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

WORDS = [
    *("barley", "clover", "hay", "meadow", "orchard", "pollen", "quince"),
    *("rowan", "seed", "thistle", "umbel", "vetch", "willow", "yarrow"),
]
BROKEN = b"\x00\xff\x13" * 40
# Twice what the files connector takes for a clock tick, in seconds: younger files are read again by the next run.
CLOCK_TICK = 0.04
ENDINGS = (".md", ".txt", ".rst", ".html", ".py", ".json")


class Folder:
    """Files of several formats in a few folders; some become unreadable for a while."""

    kind = "files"

    def __init__(self, root: Path) -> None:
        self.root = root
        self.root.mkdir(parents=True)
        self.address = str(root)
        self.ailing: dict[Path, tuple[bytes, tuple[int, int]]] = {}
        (root / "always.md").write_text("# Always\n\nSomething is always here.\n")

    def change(self, chance: Random) -> None:
        deed: Callable[[Random], None] = chance.choice(
            [
                self.create,
                self.create,
                self.edit,
                self.edit,
                self.touch,
                self.rename,
                self.delete,
                self.spoil,
                self.swap,
            ]
        )
        deed(chance)

    def create(self, chance: Random) -> None:
        folder = self.root / chance.choice(["", "a", "b", "a/deep", "Ünï cöde"])
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / (chance.choice(WORDS) + chance.choice(ENDINGS))
        path.write_text(self._text(chance))

    def edit(self, chance: Random) -> None:
        if path := self._any(chance):
            paragraphs = path.read_text(errors="replace").split("\n\n")
            paragraphs.insert(chance.randrange(len(paragraphs) + 1), self._paragraph(chance))
            path.write_text("\n\n".join(paragraphs))

    def touch(self, chance: Random) -> None:
        if path := self._any(chance):
            os.utime(path, ns=(chance.randrange(10**18), chance.randrange(10**18)))

    def rename(self, chance: Random) -> None:
        if path := self._any(chance):
            path.rename(path.with_name(chance.choice(WORDS) + chance.choice(ENDINGS)))

    def delete(self, chance: Random) -> None:
        if path := self._any(chance):
            path.unlink()

    def spoil(self, chance: Random) -> None:
        """Make a file unreadable, keeping its text aside."""
        if path := self._any(chance):
            path.write_bytes(BROKEN)

    def swap(self, chance: Random) -> None:
        one, other, aside = self.root / "a", self.root / "b", self.root / "aside"
        if one.is_dir() and other.is_dir():
            one.rename(aside)
            other.rename(one)
            aside.rename(other)
        elif one.is_dir():
            shutil.rmtree(one)

    def ail(self, chance: Random) -> None:
        self.create(chance)
        if path := self._any(chance):
            at = path.stat()
            self.ailing[path] = path.read_bytes(), (at.st_atime_ns, at.st_mtime_ns)
            path.write_bytes(BROKEN)
            os.utime(path, ns=self.ailing[path][1])

    def recover(self) -> None:
        for path, (body, times) in self.ailing.items():
            if path.is_file() and path.read_bytes() == BROKEN:
                path.write_bytes(body)
                os.utime(path, ns=times)
        self.ailing.clear()

    def heal(self) -> None:
        self.recover()
        for path in self._files():
            if b"\x00" in path.read_bytes():
                path.write_text(f"# Healed\n\nThis was {path.name}.\n")
        time.sleep(CLOCK_TICK)

    def close(self) -> None:
        shutil.rmtree(self.root)

    def _files(self) -> list[Path]:
        return sorted(p for p in self.root.rglob("*") if p.is_file() and p.name != "always.md")

    def _any(self, chance: Random) -> Path | None:
        files = self._files()
        return chance.choice(files) if files else None

    def _text(self, chance: Random) -> str:
        return f"# {chance.choice(WORDS).title()}\n\n" + "\n\n".join(
            self._paragraph(chance) for _ in range(chance.randrange(12))
        )

    def _paragraph(self, chance: Random) -> str:
        if chance.random() < 0.2:
            return f"## {chance.choice(WORDS).title()} {chance.randrange(9)}"
        return " ".join(chance.choice(WORDS) for _ in range(chance.randrange(3, 90))) + "."
