"""The table of operations and interfaces in `docs/reference/operations.md`; run this module to write it again."""

import re

from rowen.operations import VERBS
from rowen.operations.registry import operations
from tests.docs.markdown import ROOT

PAGE = ROOT / "docs" / "reference" / "operations.md"
INTERFACES = {"cli": "Command line", "rest": "REST", "web": "Web", "mcp": "Assistants"}
_HEAD = """# Operations and interfaces

Every operation of the [Python API](python.md), the scope that callers need, and the interfaces that use it. Operations
without a scope are internal to the process. The table is generated from the code: `python -m tests.docs.operations`.
"""


def called_by(interface: str) -> set[str]:
    """Return the operations that the code of an interface calls, or names as that of a route or tool."""
    folder = ROOT / "src" / "rowen" / "interfaces" / interface
    source = "".join(path.read_text("utf-8") for path in sorted(folder.rglob("*.py")))
    calls = re.findall(r"\browen\.(?:(\w+)\.)?(\w+)\(", source)
    called = {f"{group or VERBS.get(name, name)}.{name if group or name in VERBS else 'list'}" for group, name in calls}
    return (called | set(re.findall(r'"(\w+\.\w+)"', source))) & set(operations())


def table() -> str:
    """Return the page."""
    called = {interface: called_by(interface) for interface in INTERFACES}
    lines = [
        _HEAD,
        f"| operation | scope | {' | '.join(INTERFACES.values())} |",
        f"|---|---|{'---|' * len(INTERFACES)}",
    ]
    for name, operation in sorted(operations().items()):
        marks = ("✓" if name in called[interface] else "" for interface in INTERFACES)
        lines.append(f"| `{name}` | {operation.scope or ''} | {' | '.join(marks)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(table(), "utf-8")
