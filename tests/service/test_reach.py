"""What callers without the trust of this machine may name: addresses on the web, and nothing that may be a path."""

from pathlib import Path

import pytest

from rowen.errors import RefusedError
from rowen.model.access import Reach
from rowen.service.reach import newly_reached, refuse_local, refuse_options, within

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
        ("HTTPS://example.org", "HTTPS://example.org"),
        ("pypi:requests", "pypi:requests"),
    ],
)
def test_an_address_on_the_web_may_be_named_by_everybody(address: str, url: str) -> None:
    assert within(Reach.OUTSIDE, address) == url


def test_only_urls_that_are_asked_for_over_the_network_without_keys_are_open_to_everybody() -> None:
    for url in ("https://a.example", "HTTP://a.example", "git+https://a.example/x", "pkg:npm/x"):
        refuse_local(Reach.OUTSIDE, url)
    for url in ("/etc", "file:///etc", "git+ssh://a.example/x", "ssh://a.example/x", "git+file:///x"):
        refuse_local(Reach.FILES, url)
        with pytest.raises(RefusedError):
            refuse_local(Reach.OUTSIDE, url)


@pytest.mark.parametrize("reach", [Reach.FILES, Reach.OUTSIDE])
def test_only_who_runs_the_machine_gives_options_that_reach_for_its_secrets_and_folders(reach: Reach) -> None:
    folder = {"cache": "/srv/cache"}
    for kind, options in (("web", SECRET), ("git", folder), ("git", {"cache": Path("/srv/cache")})):
        refuse_options(Reach.ALL, kind, options)
        refuse_options(reach, kind, options, before=options)
        with pytest.raises(RefusedError):
            refuse_options(reach, kind, options)
    with pytest.raises(RefusedError, match="/etc"):
        refuse_options(reach, "git", {"cache": "/etc"}, before=folder)


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
    host = {"headers": {**SECRET["headers"], "HOST": "b.example"}}
    assert newly_reached("web", host, SECRET) == ["headers.HOST = b.example"]
    assert newly_reached("web", SECRET, host) == ["headers.HOST = its default"]
