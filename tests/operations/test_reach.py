"""What callers without the trust of this machine may name: addresses on the web, and nothing that may be a path."""

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
from pydantic import ByteSize
from pydantic.fields import FieldInfo

from rowen.connectors import registry
from rowen.errors import RefusedError, UsageError
from rowen.model.access import Reach
from rowen.operations.validation import newly_reached, refuse_local, refuse_named, refuse_options, with_texts, within

SECRET = {"headers": {"X-Key": "env:HOME"}}


@pytest.mark.parametrize(
    "address",
    [
        "/etc",
        "etc",
        "notes.old (1)/x",
        "file:///etc",
        "FILE:///etc",
        " file:///etc",
        "git+file:///etc",
        "Git+SSH://git@example.org/x.git",
        "ssh://git@example.org/x.git",
        "x:/../../etc",
        "https://example.org/../etc",
        "notes:today",
        "File:x",
        "\tfile:///etc",
    ],
)
def test_what_may_be_a_path_or_needs_the_keys_of_the_machine_is_no_address_on_the_web(address: str) -> None:
    with pytest.raises(RefusedError):
        within(Reach.OUTSIDE, address)
    assert within(Reach.FILES, address) == within(Reach.ALL, address) == address


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("example.org", "https://example.org"),
        (" example.org:8080/x?y ", "https://example.org:8080/x?y"),
        ("HTTPS://example.org", "https://example.org"),
        ("pypi:requests", "pypi:requests"),
    ],
)
def test_an_address_on_the_web_may_be_named_by_everybody(address: str, url: str) -> None:
    assert within(Reach.OUTSIDE, address) == url


def test_only_urls_that_are_asked_for_over_the_network_without_keys_are_open_to_everybody() -> None:
    for url in ("https://a.example", "HTTP://a.example", "git+https://a.example/x", "pkg:npm/x"):
        refuse_local(Reach.OUTSIDE, url)
    for url in ("/etc", "file:///etc", "git+ssh://a.example/x", "ssh://a.example/x", "git+file:///x", "FILE:x", "x:y"):
        refuse_local(Reach.FILES, url)
        with pytest.raises(RefusedError):
            refuse_local(Reach.OUTSIDE, url)


WEB = "https://a.example/"


@pytest.mark.parametrize("reach", [Reach.FILES, Reach.OUTSIDE])
def test_only_who_runs_the_machine_gives_options_that_reach_for_its_secrets_and_folders(reach: Reach) -> None:
    folder = {"cache": "/srv/cache"}
    files = {"shapes": "file:/etc/hostname"}
    named: list[tuple[str, dict[str, Any]]] = [("web", SECRET), ("git", folder), ("git", {"cache": Path("/srv/cache")})]
    named += [("web", files), ("web", {"shapes": "FILE:///etc/hostname"}), ("ldes", {"shape": " File:/etc/hostname"})]
    named += [("ldes", {"shape": "git+file:///srv/shapes"})]
    for kind, options in named:
        refuse_options(Reach.ALL, kind, WEB, options)
        refuse_options(reach, kind, WEB, options, before=options)
        refuse_named(reach, kind, options, before=options)
        for refuse in (refuse_named, partial(refuse_options, url=WEB)):
            with pytest.raises(RefusedError):
                refuse(reach, kind, options=options)
    with pytest.raises(RefusedError, match="/etc"):
        refuse_options(reach, "git", WEB, {"cache": "/etc"}, before=folder)


def test_a_file_that_is_too_large_for_an_option_is_refused_for_its_size(tmp_path: Path) -> None:
    shapes = tmp_path / "shapes.ttl"
    shapes.write_bytes(b"#" * ((4 << 20) + 1))

    with pytest.raises(UsageError, match="it has more than 4,194,304 bytes"):
        with_texts("web", {"shapes": f"file:{shapes}"})


def test_addresses_are_options_like_others_where_there_is_no_secret() -> None:
    plain = {"api_url": "https://a.example"}
    assert newly_reached("github", plain, {}) == newly_reached("github", {}, plain) == []
    assert newly_reached("web", {"headers": {"Host": "a.example"}}, {}) == []


def test_an_address_that_a_secret_goes_to_may_be_neither_added_nor_changed_nor_left_out() -> None:
    token, there, elsewhere = {"token": "env:HOME"}, "https://a.example", "https://b.example"
    held = {**token, "api_url": there}
    assert newly_reached("github", held, token) == [f"api_url = {there}"]
    assert newly_reached("github", {**token, "api_url": elsewhere}, held) == [f"api_url = {elsewhere}"]
    assert newly_reached("github", token, held) == ["api_url = its default"]
    assert newly_reached("github", {**held, "issues": True}, held) == []
    assert newly_reached("github", {**held, "wiki": True}, held) == ["wiki = True"]
    host = {"headers": {**SECRET["headers"], "HOST": "b.example"}}
    assert newly_reached("web", host, SECRET) == ["headers.HOST = b.example"]
    assert newly_reached("web", SECRET, host) == ["headers.HOST = its default"]


def test_a_secret_may_not_be_sent_in_another_way() -> None:
    key = {"api_key": "env:HOME"}
    renamed = {**key, "api_key_header": "X-Key"}
    assert newly_reached("ckan", renamed, key) == ["api_key_header = X-Key"]
    assert newly_reached("ckan", key, renamed) == ["api_key_header = its default"]
    assert newly_reached("ckan", {**key, "api_key_header": "Authorization"}, key) == []
    moved, bare = {"headers": {"X-Other": "env:HOME"}}, {"headers": {"X-Key": "Bearer env:HOME"}}
    assert newly_reached("web", moved, SECRET) == ["headers.X-Other = env:HOME"]
    assert newly_reached("web", bare, SECRET) == ["headers.X-Key = env:HOME"]
    both = {"headers": {**SECRET["headers"], "X-More": "env:PATH"}}
    assert newly_reached("web", SECRET, both) == []
    assert newly_reached("web", {"headers": {"X-Key": "hello"}}, both) == []


@pytest.mark.parametrize("kind", registry.kinds())
def test_with_a_secret_every_option_that_may_steer_it_is_guarded_and_no_other_is(kind: str) -> None:
    """Of each kind as it is declared: an option that is new is guarded until somebody declares it to be neutral."""
    declared = registry.connector(kind).Options
    secret_options = [name for name, field in declared.model_fields.items() if takes_secrets(name, field)]
    values = {name: another(field) for name, field in declared.model_fields.items()}
    guarded = {name for name in values if name not in declared.secret_neutral and not is_amount(name, values[name])}
    for secret_option in secret_options:
        field = declared.model_fields[secret_option]
        secret: dict[str, Any] = {secret_option: {"X-Key": "env:HOME"} if is_table(field) else "env:HOME"}
        for name, value in values.items():
            if name == secret_option:
                continue
            changed = {**secret, name: value}
            refused = bool(newly_reached(kind, changed, secret)) and bool(newly_reached(kind, secret, changed))
            assert refused == (name in guarded), (secret_option, name, value)
            for reach in (Reach.OUTSIDE, Reach.FILES):
                with pytest.raises(RefusedError) if refused else nullcontext():
                    refuse_options(reach, kind, WEB, changed, before=secret)
            refuse_options(Reach.ALL, kind, WEB, changed, before=secret)
            # Without the secret it is an option like others.
            assert newly_reached(kind, {name: value}, {}) == []
        # And another name, place or scheme of the secret itself.
        for other in ("env:PATH", "file:/etc/hostname", "Bearer env:HOME"):
            moved: dict[str, Any] = {secret_option: {"X-Key": other} if is_table(field) else other}
            assert newly_reached(kind, moved, secret) != []
        assert newly_reached(kind, {}, secret) == []

    assert bool(secret_options) == (kind != "files")


def takes_secrets(name: str, field: FieldInfo) -> bool:
    return "env:NAME" in (field.description or "") or name.endswith(("headers", "_key", "token"))


def is_table(field: FieldInfo) -> bool:
    return get_origin(field.annotation) is dict


def is_amount(name: str, value: Any) -> bool:
    return (isinstance(value, int | float) and not isinstance(value, bool)) or name in ("cache", "after", "before")


def another(field: FieldInfo) -> Any:
    """A value that is not the option's default, of its type as far as that matters here."""
    kinds = {*get_args(field.annotation), field.annotation}
    default = field.get_default(call_default_factory=True)
    if bool in kinds:
        return not default
    if kinds & {int, float, ByteSize}:
        return 7
    if is_table(field):
        return {"X-Other": "b.example"}
    if get_origin(field.annotation) is tuple:
        return ["b.example"]
    if Path in kinds:
        return None
    return "b.example"


@pytest.mark.parametrize("reach", [Reach.OUTSIDE, Reach.FILES])
def test_the_options_of_a_source_on_this_machine_are_chosen_by_who_may_name_its_files(reach: Reach) -> None:
    """`exclude` taken away, or links followed to anywhere, would read what its owner left out."""
    held: dict[str, Any] = {"exclude": ["private"]}
    refused: list[Any] = []
    for changed in ({}, {**held, "follow_links": "anywhere"}, held):
        try:
            refuse_options(reach, "files", "file:///srv/notes", changed, before=held)
        except RefusedError:
            refused.append(changed)
        refuse_options(reach, "web", WEB, changed, before=held)

    assert refused == ([{}, {**held, "follow_links": "anywhere"}] if reach is Reach.OUTSIDE else [])
