"""What is deployed is what there is: commands, options, ports, settings and extras of the files in deploy/ exist."""

import configparser
import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest
import yaml

from rowen.interfaces.cli.app import app
from rowen.settings import Settings, variables
from tests.docs.markdown import ROOT, links

DEPLOY = ROOT / "deploy"
UNITS = sorted(DEPLOY.glob("*.service"))
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
CONTAINER = (DEPLOY / "Containerfile").read_text("utf-8")
# What the image of the database reads.
THEIRS = {"POSTGRES_PASSWORD", "POSTGRES_USER", "POSTGRES_DB"}


def check_command(words: list[str]) -> None:
    """The command exists, and takes these options."""
    program, name, *rest = words
    assert Path(program).name == "rowen"
    command = app.get_command(click.Context(app), name)
    assert command is not None, name
    known = {option: parameter for parameter in command.params for option in parameter.opts}
    for place, word in enumerate(rest):
        if word.startswith("-"):
            assert word in known, f"rowen {name} has no option {word}"
        else:
            option = known[rest[place - 1]]
            assert not getattr(option, "is_flag", False), f"{rest[place - 1]} takes no value"


def settings_in(text: str) -> set[str]:
    return set(re.findall(r"\bROWEN_[A-Z_]+\b", text))


def unit(path: Path) -> configparser.ConfigParser:
    read = configparser.ConfigParser(strict=False, interpolation=None)
    read.optionxform = str  # type: ignore[assignment, method-assign]
    read.read_string(path.read_text("utf-8"))
    return read


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_starts_a_command_that_exists_and_may_do_little_else(path: Path) -> None:
    service = unit(path)["Service"]

    check_command(shlex.split(service["ExecStart"]))
    assert service["NoNewPrivileges"] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert service["EnvironmentFile"] == "/etc/rowen/environment"
    assert service["User"] == "rowen"
    assert service["Environment"].startswith("ROWEN_HOME=/var/lib/")
    assert path.read_text("utf-8").startswith(f"# /etc/systemd/system/{path.name}\n")


def test_the_worker_is_confined_as_the_server_is() -> None:
    worker, server = (dict(unit(DEPLOY / f"rowen-{name}.service")["Service"]) for name in ("worker", "serve"))
    # What they do differs, and how much of it; what they may do to the machine must not.
    own = {"ExecStart", "MemoryMax", "TimeoutStopSec"}

    assert {key: value for key, value in worker.items() if key not in own} == {
        key: value for key, value in server.items() if key not in own
    }
    assert server.keys() >= {
        "CapabilityBoundingSet",
        "NoNewPrivileges",
        "PrivateDevices",
        "PrivateTmp",
        "ProtectHome",
        "ProtectKernelTunables",
        "ProtectSystem",
        "RestrictAddressFamilies",
        "RestrictSUIDSGID",
    }


def test_the_server_two_workers_and_the_database_start_in_order_and_are_looked_after() -> None:
    services = COMPOSE["services"]

    assert set(services) == {"db", "rowen", "worker"}
    assert services["worker"]["deploy"]["replicas"] == 2
    assert "pgvector" in services["db"]["image"]
    for name in ("rowen", "worker"):
        check_command(services[name]["command"])
        assert services[name]["depends_on"]["db"]["condition"] == "service_healthy"
        assert services[name]["build"]["dockerfile"] == "deploy/Containerfile"
        assert services[name]["read_only"] is True
    assert all("healthcheck" in service for service in services.values())
    check_command(services["worker"]["healthcheck"]["test"][1:])
    assert set(COMPOSE["volumes"]) == {"db", "server"}


def test_ports_are_those_of_the_settings_and_open_to_this_machine_alone() -> None:
    port = Settings.model_fields["port"].default
    [published] = COMPOSE["services"]["rowen"]["ports"]

    assert published == f"127.0.0.1:{port}:{port}"
    assert f"EXPOSE {port}" in CONTAINER
    assert f":{port}/readyz" in COMPOSE["services"]["rowen"]["healthcheck"]["test"][-1]


def test_every_variable_is_a_setting() -> None:
    existing = {variable for name in Settings.model_fields for variable in variables(name)}
    example = (DEPLOY / "environment.example").read_text("utf-8")
    given = set(re.findall(r"^#?([A-Z_]+)=", example, re.MULTILINE))
    places = [
        *DEPLOY.iterdir(),
        ROOT / "docs" / "proxy.md",
        ROOT / "docs" / "teams.md",
        ROOT / "docs" / "assistants.md",
    ]
    told = set().union(*(settings_in(path.read_text("utf-8")) for path in places)) - {"ROWEN_TOKEN"}

    assert told <= existing
    assert given - existing <= THEIRS
    assert "ROWEN_DATABASE_URL" in given
    assert set(COMPOSE["services"]["db"]["environment"]) <= THEIRS


def test_the_container_has_what_the_server_needs_at_exact_versions_and_is_not_root() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    [extras] = re.findall(r"/opt/rowen\[([a-z,]+)\]", CONTAINER)
    copied = [name for line in re.findall(r"^COPY (.+) \S+$", CONTAINER, re.MULTILINE) for name in line.split()]

    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    assert {"mcp", "serve"} <= set(extras.split(","))
    assert "--constraint /opt/rowen/constraints.txt" in CONTAINER
    assert all((ROOT / name).exists() for name in copied)
    assert project["readme"] in copied
    assert CONTAINER.rindex("\nUSER rowen\n") > CONTAINER.rindex("pip install")
    [started] = re.findall(r"^CMD (\[.+\])$", CONTAINER, re.MULTILINE)
    check_command(yaml.safe_load(started))


def test_the_pages_lead_to_every_file() -> None:
    told = {target for page in ("teams.md", "proxy.md") for target in links(ROOT / "docs" / page)}

    assert {f"../deploy/{path.name}" for path in DEPLOY.iterdir()} <= told
