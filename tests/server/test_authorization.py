"""Nothing answers who may not ask: every route, without a token and with each scope; names, origins, sessions."""

import base64
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from rowen.errors import RefusedError
from rowen.interfaces.rest.document import OPEN
from rowen.server.app import serve
from tests.conftest import ScratchDatabase
from tests.server.interfaces import Interface, interface

FAR = {"trusts_loopback": False, "client": "203.0.113.9"}
_VALUES = {"form": "atom", "number": "1", "node": "pages/0", "ref": "product", "secret": "x", "name": "nobody"}


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, str | None]]:
    """Each route of the document: method, path with values, and the scope that it says it needs."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            filled = re.sub(r"\{(\w+)(?::\w+)?\}", lambda found: _VALUES[found[1]], path)
            yield method.upper(), filled, operation.get("x-scope")


async def asked(it: Interface, method: str, path: str, headers: dict[str, str]) -> int:
    if path.endswith("/events"):
        # It would never end: that who may ask is let in is told by a HEAD, which no route has.
        method = "HEAD" if headers else method
    answer = await it.http.request(method, path, headers=headers, json={} if method in ("POST", "PUT") else None)
    return answer.status_code


async def test_every_route_refuses_callers_without_token_or_scope(database: ScratchDatabase) -> None:
    async with interface(database, requests_per_minute=100_000, **FAR) as it:
        read, write = await it.token("read"), await it.token("write")
        document = it.interfaces.inner.openapi()
        wrong = []
        for method, path, scope in operations(document):
            nobody = await asked(it, method, path, {})
            if path.startswith(OPEN):
                wrong += [(method, path, nobody)] if scope is not None or nobody == 403 else []
                continue
            reader, writer = await asked(it, method, path, read), await asked(it, method, path, write)
            expected = {"read": (False, False), "write": (True, False), "admin": (True, True)}[scope or "read"]
            if (nobody, reader == 403, writer == 403) != (401, *expected):
                wrong.append((method, path, scope, nobody, reader, writer))

    assert wrong == []
    assert len(list(operations(document))) > 90


async def test_only_reading_takes_no_more_than_the_scope_read(database: ScratchDatabase) -> None:
    async with interface(database) as it:
        found = list(operations(it.interfaces.inner.openapi()))

    assert [path for method, path, scope in found if method != "GET" and scope == "read"] == []
    assert {path for method, path, scope in found if method == "GET" and scope == "admin"} == {
        "/api/v1/audit",
        "/api/v1/sources/nobody/push",
        "/api/v1/tokens",
    }


async def test_every_page_that_is_not_in_the_document_takes_a_token_too(database: ScratchDatabase) -> None:
    async with interface(database, **FAR) as it:
        answers = [await it.http.get(path) for path in ("/api/docs", "/api/openapi.json", "/", "/nowhere")]
        person = await it.http.get("/runs?x=1", headers={"Accept": "text/html"})

    assert [answer.status_code for answer in answers] == [401] * 4
    assert answers[0].headers["WWW-Authenticate"].startswith("Bearer")
    assert answers[0].json()["code"] == "unauthenticated"
    assert (person.status_code, person.headers["location"]) == (303, "/login?next=/runs")


async def test_on_loopback_this_machine_needs_no_token_and_others_do(database: ScratchDatabase) -> None:
    async with interface(database) as it:
        near = await it.http.get("/api/v1/me")
        behind_a_proxy = await it.http.get("/api/v1/me", headers={"X-Forwarded-For": "203.0.113.9"})
        by_another_name = await it.http.get("/api/v1/me", headers={"Host": "rowen.example.org"})
    async with interface(database, client="203.0.113.9") as it:
        far = await it.http.get("/api/v1/me")

    assert near.json() == {"name": "local", "scope": "admin"}
    assert (behind_a_proxy.status_code, far.status_code) == (401, 401)
    assert (by_another_name.status_code, by_another_name.json()["code"]) == (403, "refused")


async def test_a_name_is_ours_if_it_was_set(database: ScratchDatabase) -> None:
    named = {"public_url": "https://rowen.example.org", "hosts": "barn.local,shed.local"}
    async with interface(database, **FAR, **named) as it:
        token = await it.token("read")
        hosts = ("rowen.example.org", "barn.local:8400", "shed.local", "192.0.2.4:8400", "[::1]:8400", "evil.example")
        found = [(await it.http.get("/api/v1/me", headers={**token, "Host": host})).status_code for host in hosts]
        probe = await it.http.get("/healthz", headers={"Host": "10.1.2.3.nip.example"})

    assert found == [200, 200, 200, 200, 200, 403]
    assert probe.status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 404),
        ({"Sec-Fetch-Site": "none"}, 404),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:9999"}, 403),
        ({"Origin": "http://127.0.0.1:8400"}, 404),
        ({}, 404),
    ],
)
async def test_a_page_of_another_site_cannot_write(
    database: ScratchDatabase, headers: dict[str, str], status: int
) -> None:
    async with interface(database) as it:
        answer = await it.http.post("/api/v1/sources/nobody/sync", headers=headers)

    assert answer.status_code == status, answer.text


async def test_pages_of_other_origins_read_nothing_unless_they_are_named(database: ScratchDatabase) -> None:
    origin = {"Origin": "https://map.example.org"}
    async with interface(database, **FAR) as it:
        closed = await it.http.get("/api/v1/me", headers={**origin, **await it.token("read")})
    async with interface(database, **FAR, cors_origins="https://map.example.org") as it:
        token = await it.token("write")
        asked_before = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
        preflight = await it.http.options("/api/v1/poke", headers={**origin, **asked_before})
        opened = await it.http.get("/api/v1/me", headers={**origin, **token})
        wrote = await it.http.post("/api/v1/sources/nobody/sync", headers={**origin, **token})

    assert "access-control-allow-origin" not in closed.headers
    assert preflight.headers["access-control-allow-origin"] == "https://map.example.org"
    assert opened.headers["access-control-allow-origin"] == "https://map.example.org"
    assert "access-control-allow-credentials" not in opened.headers
    assert wrote.status_code == 404


async def test_tokens_expire_and_are_refused_once_revoked(database: ScratchDatabase) -> None:
    async with interface(database, **FAR) as it:
        made = await it.rowen.access.add_token("old", scope="admin", days=1, now=datetime.now(UTC) - timedelta(days=2))
        expired = await it.http.get("/api/v1/me", headers={"Authorization": f"Bearer {made.secret}"})
        held = await it.token("read", "short")
        before = await it.http.get("/api/v1/me", headers=held)
        await it.rowen.access.revoke_token("short")
        after = await it.http.get("/api/v1/me", headers=held)
        [stored] = database.query("select hash, name from access_token")

    assert (expired.status_code, before.status_code, after.status_code) == (401, 200, 401)
    assert (stored[1], len(stored[0])) == ("old", 32)
    assert made.secret.encode() not in stored[0]


async def test_a_token_as_password_allows_reading_feeds_but_no_writes(database: ScratchDatabase) -> None:
    async with interface(database, **FAR) as it:
        token = (await it.token("write"))["Authorization"].removeprefix("Bearer ")
        basic = {"Authorization": "Basic " + base64.b64encode(f"x:{token}".encode()).decode()}
        feed = await it.http.get("/feeds/atom", headers=basic)
        wrote = await it.http.post("/api/v1/queue/pause", headers=basic)
        broken = await it.http.get("/feeds/atom", headers={"Authorization": "Basic %%%"})

    assert (feed.status_code, wrote.status_code, broken.status_code) == (200, 401, 401)


async def test_public_reading_can_be_allowed_but_not_writing(database: ScratchDatabase) -> None:
    async with interface(database, **FAR, public_read=True) as it:
        found = [
            (await it.http.get("/api/v1/sources")).status_code,
            (await it.http.post("/api/v1/sources/nobody/sync")).status_code,
            (await it.http.get("/api/v1/tokens")).status_code,
        ]

    assert found == [200, 403, 403]


async def test_guessing_tokens_is_rate_limited(database: ScratchDatabase) -> None:
    async with interface(database, **FAR) as it:
        wrong = {"Authorization": "Bearer rowen_wrong"}
        answers = [(await it.http.get("/api/v1/me", headers=wrong)).status_code for _ in range(31)]
        good = await it.http.get("/api/v1/me", headers=await it.token("read"))

    assert (answers[0], answers[-1], good.status_code) == (401, 429, 429)


async def log_in(it: Interface, secret: str, wanted: str = "/") -> httpx.Response:
    return await it.http.post("/login", data={"token": secret, "next": wanted})


async def test_a_browser_logs_in_with_a_token_and_its_cookie_is_strict(database: ScratchDatabase) -> None:
    async with interface(database, **FAR, base="https://127.0.0.1:8400") as it:
        made = await it.rowen.access.add_token("ada", scope="write")
        page = await it.http.get("/login?next=/runs")
        wrong = await log_in(it, "rowen_nothing")
        right = await log_in(it, made.secret, "/runs")
        inside = await it.http.get("/api/v1/me")
        [stored] = database.query("select name, scope, hash from access_session")
        left = await it.http.post("/logout")
        outside = await it.http.get("/api/v1/me")

    cookie = right.headers["set-cookie"]
    assert (page.status_code, 'value="/runs"' in page.text, wrong.status_code) == (200, True, 401)
    assert (right.status_code, right.headers["location"]) == (303, "/runs")
    assert cookie.startswith("__Host-rowen_session=")
    assert all(flag in cookie for flag in ("HttpOnly", "SameSite=strict", "Secure", "Path=/"))
    assert (inside.json(), stored[:2]) == ({"name": "token:ada", "scope": "write"}, ("token:ada", "write"))
    assert made.secret not in cookie
    assert (left.status_code, outside.status_code) == (303, 401)


@pytest.mark.parametrize(("proto", "accepted"), [("https", "__Host-rowen_session"), ("http", "rowen_session")])
async def test_over_tls_only_the_cookie_counts_that_no_other_host_can_set(
    database: ScratchDatabase, proto: str, accepted: str
) -> None:
    told = {"X-Forwarded-Proto": proto, "X-Forwarded-For": "203.0.113.9"}
    async with interface(database, client="10.0.0.1", trusts_loopback=False, proxies="10.0.0.0/8") as it:
        made = await it.rowen.access.add_token("ada")
        entered = await it.http.post("/login", data={"token": made.secret}, headers=told)
        name, _, secret = entered.headers["set-cookie"].partition(";")[0].partition("=")
        it.http.cookies.clear()
        found = {}
        for sent in ("rowen_session", "__Host-rowen_session"):
            answer = await it.http.get("/api/v1/me", headers={**told, "Cookie": f"{sent}={secret}"})
            found[sent] = answer.status_code

    assert name == accepted
    assert found == {"rowen_session": 401, "__Host-rowen_session": 401} | {accepted: 200}


async def test_a_session_ends_with_its_token(database: ScratchDatabase) -> None:
    async with interface(database, **FAR) as it:
        made = await it.rowen.access.add_token("ada")
        await log_in(it, made.secret)
        before = await it.http.get("/api/v1/me")
        await it.rowen.access.revoke_token("ada")
        after = await it.http.get("/api/v1/me")

    assert (before.status_code, after.status_code) == (200, 401)


@pytest.mark.parametrize("wanted", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:x", ""])
async def test_a_login_leads_nowhere_else(database: ScratchDatabase, wanted: str) -> None:
    async with interface(database, **FAR) as it:
        made = await it.rowen.access.add_token("ada")
        answer = await log_in(it, made.secret, wanted)
        page = await it.http.get("/login", params={"next": f'{wanted}"><script>'})

    assert answer.headers["location"] == "/"
    assert "<script>" not in page.text


async def test_an_address_that_others_reach_is_not_served_before_there_is_a_token(database: ScratchDatabase) -> None:
    async with database.open(host="0.0.0.0", port=0) as rowen:
        with pytest.raises(RefusedError, match="there is no token"):
            await serve(rowen, works=False)


async def test_a_writer_reaches_neither_folders_nor_secrets_of_the_server(database: ScratchDatabase) -> None:
    secret = {"headers": {"X-Key": "Bearer env:HOME"}}
    site = {"name": "x", "kind": "web", "url": "https://example.org/"}
    async with interface(database, **FAR, probe=False) as it:
        write, admin = await it.token("write"), await it.token("admin")
        asked: list[tuple[str, str, dict[str, Any]]] = [
            ("POST", "sources", {"address": "/etc"}),
            ("POST", "sources", {"address": "etc"}),
            ("POST", "sources", {"address": "pypi:/../../../../../../etc"}),
            ("POST", "sources", {"address": "git+ssh://git@example.org/x.git"}),
            ("POST", "sources", {"address": "file:///etc", "kind": "files"}),
            ("POST", "sources", {"address": "https://example.org", "options": secret}),
            ("POST", "sources", {"address": "git+https://example.org/x", "options": {"cache": "/etc"}}),
            ("PATCH", "sources/site", {"options": secret}),
            ("POST", "extractions", {"url": "/etc/passwd", "schema": "article"}),
            ("POST", "extractions", {"url": "/etc/passwd", "schema": "article", "dry_run": True}),
            ("POST", "preview", {"address": "/etc"}),
            ("POST", "apply", {"source": [{**site, "kind": "files", "url": "/etc"}]}),
            ("POST", "apply", {"source": [{**site, "options": secret}]}),
        ]
        await it.http.post("/api/v1/sources", headers=write, json={"address": "example.org", "name": "site"})
        answers = [await it.http.request(how, f"/api/v1/{path}", headers=write, json=body) for how, path, body in asked]
        [same] = (await it.http.get("/api/v1/sources", headers=write)).json()["items"]
        trusted = await it.http.patch("/api/v1/sources/site", headers=admin, json={"options": secret})
        page = await it.http.post("/add", headers=write, data={"address": "/etc"})
        # What an administrator said stays, and may not be sent elsewhere by others.
        later = await it.http.patch("/api/v1/sources/site", headers=write, json={"options": {"max_pages": 7}})

    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(403, "refused")] * len(asked)
    assert (same["url"], same["options"], trusted.status_code) == ("https://example.org", {}, 200)
    assert page.status_code == 403
    assert later.json()["options"] == {**secret, "max_pages": 7}


_KEYED = {"headers": {"X-Key": "Bearer env:HOME"}}
_ROUTED = {"headers": {**_KEYED["headers"], "Host": "site.example"}}
_REPOSITORY = {"token": "env:HOME", "api_url": "https://api.example/v3"}
_PACKAGE = {"registry_headers": {"X-Key": "env:HOME"}, "registry": "https://registry.example/simple"}
_ELSEWHERE = "https://evil.example/api"


@pytest.mark.parametrize(
    ("kind", "url", "options", "change"),
    [
        ("github", "https://github.com/me/it", _REPOSITORY, {"api_url": _ELSEWHERE}),
        ("github", "https://github.com/me/it", _REPOSITORY, {"raw_url": _ELSEWHERE}),
        ("github", "https://github.com/me/it", _REPOSITORY, {"api_url": None}),
        ("github", "https://github.com/me/it", {"token": "env:HOME"}, {"api_url": _ELSEWHERE}),
        ("pypi", "pkg:pypi/it", _PACKAGE, {"registry": _ELSEWHERE}),
        ("pypi", "pkg:pypi/it", _PACKAGE, {"registry": None}),
        ("pypi", "pkg:pypi/it", {**_PACKAGE, **_KEYED}, {"docs": _ELSEWHERE}),
        ("pypi", "pkg:pypi/it", _PACKAGE, {"headers": _KEYED["headers"], "docs": _ELSEWHERE}),
        ("web", "https://example.org", _KEYED, {"headers": {"X-Other": "Bearer env:HOME"}}),
        ("web", "https://example.org", _KEYED, {"headers": {**_KEYED["headers"], "Host": "evil.example"}}),
        ("web", "https://example.org", _KEYED, {"headers": {**_KEYED["headers"], "X-Forwarded-Host": "evil.example"}}),
        ("web", "https://example.org", _KEYED, {"headers": {"X-Key": "env:HOME"}}),
        ("web", "https://example.org", _ROUTED, {"headers": _KEYED["headers"]}),
        ("web", "https://example.org", _KEYED, {"render": "always"}),
        ("github", "https://github.com/me/it", {"token": "env:HOME"}, {"wiki": True}),
        ("ckan", "https://example.org", {"api_key": "env:HOME"}, {"api_key_header": "X-Debug"}),
        ("ckan", "https://example.org", {"api_key": "env:HOME"}, {"include_private": True}),
        ("ckan", "https://example.org", {"api_key": "env:HOME", "api_key_header": "X-Key"}, {"api_key_header": None}),
        ("ldes", "https://example.org", _KEYED, {"shape": _ELSEWHERE}),
        ("ldes", "https://example.org", _KEYED, {"shape": "file:/etc/hostname"}),
    ],
)
async def test_a_writer_cannot_send_the_secret_of_an_administrator_elsewhere(
    database: ScratchDatabase, kind: str, url: str, options: dict[str, Any], change: dict[str, Any]
) -> None:
    new = {"address": url, "kind": kind, "name": "x", "options": options}
    async with interface(database, **FAR, probe=False) as it:
        write, admin = await it.token("write"), await it.token("admin")
        made = await it.http.post("/api/v1/sources", headers=admin, json=new)
        source = {name: made.json()[name] for name in ("name", "kind", "url")}
        changed = {name: value for name, value in {**options, **change}.items() if value is not None}
        file = {"source": [{**source, "options": changed}]}
        edited = await it.http.patch("/api/v1/sources/x", headers=write, json={"options": change})
        applied = await it.http.post("/api/v1/apply", headers=write, json=file)
        after = await it.http.get("/api/v1/sources/x", headers=write)
        agreed = await it.http.patch("/api/v1/sources/x", headers=admin, json={"options": change})

    assert (made.status_code, after.json()["options"]) == (201, made.json()["options"])
    assert [(one.status_code, one.json()["code"]) for one in (edited, applied)] == [(403, "refused")] * 2
    assert agreed.status_code == 200


async def test_a_writer_cannot_change_the_url_or_kind_of_a_source_with_a_secret(database: ScratchDatabase) -> None:
    new = {"address": "https://example.org", "kind": "web", "name": "x", "options": _KEYED}
    file = {"name": "x", "kind": "web", "url": _ELSEWHERE, "options": _KEYED}
    async with interface(database, **FAR, probe=False) as it:
        write, admin = await it.token("write"), await it.token("admin")
        made = await it.http.post("/api/v1/sources", headers=admin, json=new)
        answers = [
            await it.http.patch("/api/v1/sources/x", headers=write, json={"url": _ELSEWHERE}),
            await it.http.patch("/api/v1/sources/x", headers=write, json={"kind": "feed"}),
            await it.http.post("/api/v1/apply", headers=write, json={"source": [file]}),
            await it.http.post("/api/v1/apply", headers=write, json={"source": [{**file, "name": "y"}]}),
            await it.http.post("/api/v1/apply?prune=true", headers=write, json={"source": [{**file, "name": "y"}]}),
        ]
        kept = (await it.http.get("/api/v1/sources", headers=write)).json()["items"]

    assert all(400 <= one.status_code < 500 for one in answers), [one.text for one in answers]
    assert [(one["kind"], one["url"], one["options"]) for one in kept] == [("web", made.json()["url"], _KEYED)]


async def test_a_writer_who_changes_the_address_of_a_secret_removes_the_secret(database: ScratchDatabase) -> None:
    new = {"address": "https://github.com/me/it", "kind": "github", "name": "x", "options": _REPOSITORY}
    async with interface(database, **FAR, probe=False) as it:
        write, admin = await it.token("write"), await it.token("admin")
        await it.http.post("/api/v1/sources", headers=admin, json=new)
        both = {"options": {"token": None, "api_url": None}}
        done = await it.http.patch("/api/v1/sources/x", headers=write, json=both)

    assert (done.status_code, done.json()["options"]) == (200, {})
