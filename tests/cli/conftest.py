"""The real command in a process of its own, on a database of the test's own."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ScratchDatabase
from tests.portals.embedder import Provider

PATIENCE_S = 60


@dataclass(frozen=True)
class Done:
    """What a finished command left."""

    code: int
    out: str
    err: str

    @property
    def facts(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error(self) -> dict[str, Any]:
        """The JSON object at the end of stderr."""
        fact: dict[str, Any] = json.loads(self.err.splitlines()[-1])
        return fact


class Cli:
    """`rowen`, as a user has it."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        self.folder = folder
        own = {name: value for name, value in os.environ.items() if not name.startswith(("ROWEN_", "CB_"))}
        self.environment = {
            **own,
            "ROWEN_WORKERS": "0",
            "ROWEN_EMBEDDER": "none",
            "ROWEN_CONFIG": os.devnull,
            "ROWEN_EMBEDDED_LINGER_S": "0",
            **settings,
        }

    def __call__(self, *arguments: str, **settings: str) -> Done:
        with self.start(*arguments, **settings) as process:
            out, err = process.communicate(timeout=PATIENCE_S)
        return Done(process.returncode, out, err)

    def start(self, *arguments: str, **settings: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "rowen", *arguments],
            cwd=self.folder,
            env={**self.environment, **settings},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")


def leading_to(provider: Provider) -> dict[str, str]:
    """Settings that name a provider of embeddings."""
    return {f"ROWEN_{name.upper()}": value for name, value in provider.settings.items()}


@pytest.fixture
def cli(database: ScratchDatabase, tmp_path: Path) -> Cli:
    return Cli(tmp_path, {"ROWEN_DATABASE_URL": database.conninfo, "ROWEN_HOME": str(tmp_path / "home")})


@pytest.fixture
def docs(cli: Cli, database: ScratchDatabase) -> Cli:
    """A folder `docs` of three files, already synced."""
    cli.write(
        {
            "docs/hay.md": "# Hay\n\nMow the meadow when the swallows fly high.\n\n## Drying\n\nTurn the hay twice.\n",
            "docs/hens.md": "# Hens\n\nClose the hatch at dusk. Nine perches for nine hens.\n",
            "docs/cider.txt": "Press the apples in October.\n",
        }
    )

    async def sync() -> None:
        async with database.open() as rowen:
            await rowen.sync(str(cli.folder / "docs"))

    asyncio.run(sync())
    return cli


@pytest.fixture
def field(cli: Cli) -> Path:
    """A folder of two texts."""
    field = cli.folder / "field"
    field.mkdir()
    for name in ("barley", "clover"):
        (field / f"{name}.md").write_text(f"# {name}\n\nAll about {name}.\n")
    return field
