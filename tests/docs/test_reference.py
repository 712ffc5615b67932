"""Nothing is undocumented: a setting, a command, an option, a public name, a room or a table that is missing fails."""

import re
import tomllib
from collections.abc import Iterator

import click
import pytest

import rowen
from rowen.connectors.registry import connector
from rowen.connectors.web.options import WebOptions
from rowen.errors import RowenError
from rowen.interfaces.cli.app import app
from rowen.model.runs import Outcome, RunStats
from rowen.operations import VERBS
from rowen.operations.registry import operations
from rowen.settings import Settings, variables
from tests.docs.markdown import PAGES, ROOT, links, rows

DOCS = ROOT / "docs"
CLI = (DOCS / "reference" / "cli.md").read_text("utf-8")
PYTHON = (DOCS / "reference" / "python.md").read_text("utf-8")
ARCHITECTURE = (DOCS / "architecture.md").read_text("utf-8")
TABLES = (DOCS / "reference" / "tables.md").read_text("utf-8")

PAGE_OF = {
    "announced": "announced.md",
    "arcgis": "arcgis.md",
    "ckan": "ckan.md",
    "csw": "csw.md",
    "datajson": "datajson.md",
    "dcat": "dcat.md",
    "feed": "feeds.md",
    "files": "files.md",
    "git": "repositories.md",
    "github": "repositories.md",
    "ldes": "ldes.md",
    "npm": "packages.md",
    "oai": "oai.md",
    "opendatasoft": "opendatasoft.md",
    "pypi": "packages.md",
    "sdmx": "sdmx.md",
    "socrata": "socrata.md",
    "sparql": "sparql.md",
    "stac": "stac.md",
    "web": "sites.md",
}


def commands(group: click.Group, path: str = "rowen") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")


COMMANDS = dict(commands(app))


def section(path: str) -> str:
    """What the page says of a command: from its heading to the next one."""
    found = re.search(rf"^### `{' '.join(path.split()[:2])}\b.*?(?=^##)", CLI + "\n##", re.MULTILINE | re.DOTALL)
    return found[0] if found else ""


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_is_documented_with_its_options(path: str) -> None:
    shared = {option for parameter in app.params for option in parameter.opts}
    own = {option for parameter in COMMANDS[path].params for option in parameter.opts if option.startswith("-")}

    assert f"`{path}" in section(path)
    assert {option for option in own - shared if f"`{option}" not in section(path)} == set()


def test_the_options_of_every_command_are_documented() -> None:
    options = {option for parameter in app.params for option in parameter.opts}

    assert {option for option in options if f"`{option}" not in CLI and f" {option}`" not in CLI} == set()


def test_every_documented_command_exists() -> None:
    documented = {" ".join(words.split()) for words in re.findall(r"^### `(rowen [a-z]+)", CLI, re.MULTILINE)}

    assert documented == {path for path in COMMANDS if path.count(" ") == 1}


def test_every_count_and_every_exit_code_is_documented() -> None:
    codes = {kind.exit_code for kind in (RowenError, *_below(RowenError))} | {0, 130}

    assert [name for name in RunStats().to_json() if f"`{name}`" not in CLI] == []
    assert {code for code in codes if not re.search(rf"^\| {code} \|", CLI, re.MULTILINE)} == set()


def _below(kind: type[RowenError]) -> Iterator[type[RowenError]]:
    for child in kind.__subclasses__():
        yield child
        yield from _below(child)


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_is_documented_with_its_default(name: str) -> None:
    field = Settings.model_fields[name]
    table = {row[0]: row for row in rows(DOCS / "reference" / "settings.md") if len(row) == 3}
    row = table.get(", or ".join(f"`{variable}`" for variable in variables(name)), [])

    assert row, f"{variables(name)} is not in docs/reference/settings.md"
    assert row[2]
    if field.default not in (None, ()):
        assert row[1] == f"`{field.default}`"


def test_every_documented_setting_exists() -> None:
    documented = {
        word for row in rows(DOCS / "reference" / "settings.md") for word in re.findall(r"`([A-Z_]+)`", row[0])
    }
    existing = {variable for name in Settings.model_fields for variable in variables(name)}

    assert documented - existing == set()


def built_in_kinds() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return set(project["entry-points"]["rowen.connectors"])


def test_every_built_in_kind_has_a_page_that_the_readme_links() -> None:
    readme = links(ROOT / "README.md")

    assert set(PAGE_OF) == built_in_kinds()
    assert [page for page in PAGE_OF.values() if f"docs/{page}" not in readme] == []
    assert [kind for kind, page in PAGE_OF.items() if f"`{kind}`" not in (DOCS / page).read_text("utf-8")] == []


@pytest.mark.parametrize("kind", PAGE_OF)
def test_every_option_of_a_kind_is_documented_with_its_default(kind: str) -> None:
    model = connector(kind).Options
    documented = options_in(PAGE_OF[kind])
    if issubclass(model, WebOptions):
        documented = options_in("sites.md") | documented

    assert model.model_fields
    for name, field in model.model_fields.items():
        default = field.get_default(call_default_factory=True)
        assert documented.get(name), f"option {name} of kind {kind} is not in docs/{PAGE_OF[kind]}"
        if default not in (None, (), {}, ""):
            assert documented[name] == as_written(default), name


@pytest.mark.parametrize("page", sorted(set(PAGE_OF.values())))
def test_every_documented_option_exists(page: str) -> None:
    kinds = [kind for kind in PAGE_OF if PAGE_OF[kind] == page]
    existing = {name for kind in kinds for name in connector(kind).Options.model_fields}

    assert set(options_in(page)) - existing == set()


def options_in(page: str) -> dict[str, str]:
    """The options in the tables of a page, with their defaults as they are written there."""
    found: dict[str, str] = {}
    for name, default, *_ in option_rows(page):
        assert name not in found, f"{name} stands twice in docs/{page}"
        found[name] = default
    return found


def option_rows(page: str) -> Iterator[list[str]]:
    """The rows of those tables whose head is that of options."""
    inside = False
    for row in rows(DOCS / page):
        if row == ["option", "default", "meaning"]:
            inside = True
        elif len(row) != 3 or not re.fullmatch(r"`\w+`|-+", row[0]):
            inside = False
        elif inside and row[0].startswith("`"):
            yield [row[0].strip("`"), *row[1:]]


def as_written(default: object) -> str:
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def test_every_public_name_is_documented() -> None:
    interfaces = {"open", "open_blocking"}

    assert [name for name in rowen.__all__ if name not in interfaces and f"`{name}`" not in PYTHON] == []
    assert [name for name in interfaces if f"`rowen.{name}()`" not in PYTHON] == []


def test_every_operation_is_documented_in_the_section_of_its_group() -> None:
    sections = {part.partition("`")[0]: part for part in PYTHON.split("\n### ") for part in [part.partition(": `")[2]]}
    verbs = {name for name in dir(rowen.Rowen) if not name.startswith("_")} - {"start", "close", "stop"}

    assert [name for name in operations() if f"`{name}(" not in sections.get(name.partition(".")[0], "")] == []
    assert verbs == set(VERBS)
    assert "`stop()`" in PYTHON


def test_the_architecture_names_every_package() -> None:
    source = ROOT / "src" / "rowen"
    packages = [path.name + "/" for path in source.iterdir() if (path / "__init__.py").exists()]

    assert [package for package in packages if f"`{package}`" not in ARCHITECTURE] == []


def test_the_architecture_can_be_read_in_fifteen_minutes() -> None:
    """Reading takes some 200 words a minute."""
    assert len(ARCHITECTURE.split()) <= 3_000


def test_the_page_of_tables_lists_every_table() -> None:
    migrations = "".join(path.read_text("utf-8") for path in (ROOT / "src/rowen/store/migrations").glob("*.sql"))
    tables = re.findall(r"^create (?:unlogged )?(?:table|view) (\w+)", migrations, re.MULTILINE)

    assert [table for table in tables if f"| `{table}` |" not in TABLES] == []


def test_the_glossary_has_every_outcome_and_is_in_order() -> None:
    words = [row[0].strip("*") for row in rows(DOCS / "glossary.md") if row[0].startswith("**")]

    assert words == sorted(words)
    assert {str(outcome) for outcome in Outcome} <= set(words)


def test_the_changelog_starts_with_a_sentence() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text("utf-8").splitlines()

    assert re.match(r"[A-Z].*[a-z]", lines[2])
    assert any(line.startswith("## ") and rowen.__version__ in line for line in lines)


def test_pages_name_no_machine() -> None:
    private = re.compile(r"/(?:home|Users|root|work)/\w|file:///tmp")

    assert [page.name for page in PAGES if private.search(page.read_text("utf-8"))] == []
