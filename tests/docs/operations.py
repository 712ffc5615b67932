"""The table of operations and interfaces in `docs/reference/operations.md`; run this module to write it again."""

import re

from rowen.operations import VERBS
from rowen.operations.interfaces import HIDDEN, INTERFACES, hidden_by
from rowen.operations.registry import operations
from tests.docs.markdown import ROOT

PAGE = ROOT / "docs" / "reference" / "operations.md"
_HEAD = """# Operations and interfaces

Every operation of the [Python API](python.md), the scope that callers need, and the interfaces that offer it.
Operations without a scope are internal to the process. The page is generated: `python -m tests.docs.operations`.
"""
_REASONS = """
## Why an interface hides an operation

| interface | reason | operations |
|---|---|---|"""


def called_by(interface: str) -> set[str]:
    """Return the operations that the code of an interface calls, or names as that of a route or tool."""
    folder = ROOT / "src" / "rowen" / "interfaces" / interface
    source = "".join(path.read_text("utf-8") for path in sorted(folder.rglob("*.py")))
    calls = re.findall(r"\browen\.(?:(\w+)\.)?(\w+)\(", source)
    called = {f"{group or VERBS.get(name, name)}.{name if group or name in VERBS else 'list'}" for group, name in calls}
    return (called | set(re.findall(r'"(\w+\.\w+)"', source))) & set(operations())


def table() -> str:
    """Return the page."""
    hidden = {interface: hidden_by(interface) for interface in INTERFACES}
    lines = [
        _HEAD,
        f"| operation | scope | {' | '.join(INTERFACES.values())} |",
        f"|---|---|{'---|' * len(INTERFACES)}",
    ]
    for name, operation in sorted(operations().items()):
        marks = ("" if name in hidden[interface] else "✓" for interface in INTERFACES)
        lines.append(f"| `{name}` | {operation.scope or ''} | {' | '.join(marks)} |")
    lines.append(_REASONS)
    for interface, title in INTERFACES.items():
        for reason, names in HIDDEN[interface].items():
            lines.append(f"| {title} | {reason} | {', '.join(f'`{name}`' for name in sorted(names.split()))} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(table(), "utf-8")
