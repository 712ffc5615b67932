"""Draws the terminal of the README from what commands really print: `python -m tests.docs.terminal_picture`.

It is a dark window, which can be read on a light and on a dark page, in whatever monospaced font there is.
"""

import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from tests.docs.markdown import ROOT

PICTURE = ROOT / "docs" / "pictures" / "terminal.svg"
# What fits the width of a README without being shrunk.
COLUMNS, LINES = 100, 40
FONT_BEGIN, FONT_END = "    @font-face", "    .{unique_id}-matrix"
NOTES = {
    "goat.md": "# The goat\n\nThe gate was open. The goat went up the woodpile, onto the barn.\n\nNobody was hurt.\n",
    "hay.md": "# Hay\n\nCut it dry, turn it twice, and bring it in before the evening.\n",
    "eggs.md": "# Eggs\n\nNine hens, seven eggs a day in May.\n",
}
COMMANDS = (
    "rowen sync ./notes",
    "rowen search 'an animal on the roof' --limit 1",
    "sed -i 's/hurt/seen/' notes/goat.md; rm notes/eggs.md; touch notes/hay.md",
    "rowen sync",
    "rowen diff notes/goat.md",
)


def main() -> None:
    """Draw it."""
    with tempfile.TemporaryDirectory(prefix="rowen-picture-") as folder:
        place = Path(folder)
        (place / "notes").mkdir()
        for name, text in NOTES.items():
            (place / "notes" / name).write_text(text)
        draw([(command, shown(command, place)) for command in COMMANDS])
        shown("rowen db stop", place)


def environment(place: Path) -> dict[str, str]:
    """That of somebody who has just installed it."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    own = {name: value for name, value in os.environ.items() if not name.startswith("ROWEN_")}
    return {
        **own,
        "PATH": path,
        "ROWEN_HOME": str(place / "home"),
        "COLUMNS": str(COLUMNS),
        "TERM": "xterm-256color",
    }


def shown(command: str, place: Path) -> str:
    """What a command prints on a terminal, with its colours; progress bars, which go to stderr, left out."""
    reader, writer = pty.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    null = subprocess.DEVNULL
    process = subprocess.Popen(
        command, shell=True, cwd=place, env=environment(place), stdin=null, stdout=writer, stderr=null
    )
    os.close(writer)
    told = b""
    try:
        while piece := os.read(reader, 65536):
            told += piece
    except OSError:
        pass  # Linux says so when the last writer is gone.
    os.close(reader)
    process.wait()
    return told.decode().replace("\r\n", "\n").replace(str(place), "~")


def draw(shots: list[tuple[str, str]]) -> None:
    """A picture of some commands and their answers."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    for command, told in shots:
        console.print(Text.assemble(("$ ", "green"), (command, "bold")))
        console.print(Text.from_ansi(told.rstrip("\n"))) if told else None
    form = CONSOLE_SVG_FORMAT
    form = form[: form.index(FONT_BEGIN)] + form[form.index(FONT_END) :]
    picture = console.export_svg(title="rowen", theme=MONOKAI, code_format=form, unique_id="terminal")
    PICTURE.write_text(picture.replace("Fira Code, monospace", "monospace") + "\n", "utf-8")


if __name__ == "__main__":
    main()
