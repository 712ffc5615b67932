"""People are named by an identity provider: by its keys, for our audience, with the roles that were given scopes."""

import base64
import json
import time
from collections.abc import Iterator
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from joserfc import jws
from joserfc.jwk import ECKey, KeySet, OctKey

from rowen.errors import ConfigurationError
from rowen.operations import Rowen
from rowen.server.app import assemble
from tests.conftest import ScratchDatabase
from tests.server.interfaces import Interface, interface


class Provider:
    """A provider on loopback, with a key that can be changed; it counts what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.key = ECKey.generate_key("P-256", parameters={"kid": "one", "alg": "ES256", "use": "sig"})
        provider = self

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked.append(self.path)
                keys = KeySet([provider.key]).as_dict(private=False)
                self.say(keys if self.path == "/keys" else provider.configuration)

            def do_POST(self) -> None:
                provider.asked.append(self.path)
                length = int(self.headers["Content-Length"])
                provider.posted = dict(parse_qsl(self.rfile.read(length).decode()))
                self.say({"id_token": provider.token(nonce=provider.nonce)})

            def say(self, body: Any) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, *_: Any) -> None:
                return None

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.posted: dict[str, str] = {}
        self.nonce = ""
        self.configuration = {
            "jwks_uri": f"{self.url}/keys",
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
        }
        self.settings = {
            "trusts_loopback": False,
            "oidc_issuer": self.url,
            "oidc_audience": "rowen",
            "oidc_roles": "staff=read,editors=write,owners=admin",
            "oidc_roles_claim": "realm_access.roles",
        }
        Thread(target=self.server.serve_forever, daemon=True).start()

    def token(self, key: Any = None, *, algorithm: str = "ES256", **claims: Any) -> str:
        """A token that this provider signs, or somebody else."""
        roles = {"realm_access": {"roles": ["staff", "editors"]}}
        told = {"iss": self.url, "aud": "rowen", "sub": "u1", "exp": int(time.time()) + 600, **roles, **claims}
        header = {"alg": algorithm, "kid": (key or self.key).kid or "one"}
        body = json.dumps({k: v for k, v in told.items() if v is not None}).encode()
        return jws.serialize_compact(header, body, key or self.key, algorithms=[algorithm])


@pytest.fixture
def provider() -> Iterator[Provider]:
    one = Provider()
    yield one
    one.server.shutdown()
    one.server.server_close()


async def status(it: Interface, token: str) -> int:
    return (await it.http.get("/api/v1/me", headers={"Authorization": f"Bearer {token}"})).status_code


async def test_a_signed_token_names_a_person_with_the_most_that_its_roles_may(
    database: ScratchDatabase, provider: Provider
) -> None:
    async with interface(database, **provider.settings) as it:
        token = provider.token(email="ada@example.org", email_verified=True, aud=["other", "rowen"])
        headers = {"Authorization": f"Bearer {token}"}
        me = await it.http.get("/api/v1/me", headers=headers)
        again = await it.http.get("/api/v1/me", headers=headers)

    assert (me.json(), again.status_code) == ({"name": "email:ada@example.org", "scope": "write"}, 200)
    assert provider.asked == ["/.well-known/openid-configuration", "/keys"]


async def test_a_token_not_signed_for_this_server_names_no_principal(
    database: ScratchDatabase, provider: Provider
) -> None:
    stranger = ECKey.generate_key("P-256", parameters={"kid": "one", "alg": "ES256"})
    shared = OctKey.import_key(b"x" * 32, parameters={"kid": "one"})
    claims = base64.urlsafe_b64encode(json.dumps({"iss": provider.url, "aud": "rowen"}).encode()).decode().rstrip("=")
    unsigned = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=") + f".{claims}."
    async with interface(database, **provider.settings) as it:
        wrong = {
            "another key": provider.token(stranger),
            "a shared secret": provider.token(shared, algorithm="HS256"),
            "no signature": unsigned,
            "over": provider.token(exp=int(time.time()) - 3600),
            "never over": provider.token(exp=None),
            "for others": provider.token(aud="other"),
            "of others": provider.token(iss="https://evil.example"),
            "no role of ours": provider.token(realm_access={"roles": ["guests"]}),
            "nonsense": "a.b.c",
        }
        found = {name: await status(it, token) for name, token in wrong.items()}

    assert found == dict.fromkeys(wrong, 401)
    # Nonsense does not have the provider asked again and again.
    assert len(provider.asked) == 2


async def test_a_new_key_is_fetched_and_an_unreachable_provider_admits_nobody(
    database: ScratchDatabase, provider: Provider
) -> None:
    async with interface(database, **provider.settings) as it:
        first = await status(it, provider.token())
        people = it.rowen.access.identify.__self__._people  # type: ignore[attr-defined]
        provider.key = ECKey.generate_key("P-256", parameters={"kid": "two", "alg": "ES256", "use": "sig"})
        people._asked_at -= 31
        second = await status(it, provider.token())
    provider.server.server_close()
    async with interface(database, **provider.settings) as it:
        down = await status(it, provider.token())

    assert (first, second, down) == (200, 200, 401)


async def test_nobody_takes_the_name_of_another_caller(database: ScratchDatabase, provider: Provider) -> None:
    people = [
        {"email": "root@example.org", "email_verified": True},
        {"email": "root@example.org"},
        {"email": "root@example.org", "email_verified": "true"},
        {"sub": "root@example.org"},
        *({"sub": name, "email": name} for name in ("local", "public", "ci", "token:ci", "email:root@example.org")),
    ]
    async with interface(database, **provider.settings) as it:
        headers = [await it.token("read", name) for name in ("ci", "local", "public", "root@example.org")]
        headers += [{"Authorization": f"Bearer {provider.token(**claims)}"} for claims in people]
        names = [(await it.http.get("/api/v1/me", headers=one)).json()["name"] for one in headers]

    assert names[:4] == ["token:ci", "token:local", "token:public", "token:root@example.org"]
    assert names[4:8] == ["email:root@example.org", "sub:u1", "sub:u1", "sub:root@example.org"]
    assert names[8:] == ["sub:local", "sub:public", "sub:ci", "sub:token:ci", "sub:email:root@example.org"]


async def test_a_session_of_an_earlier_version_has_the_name_of_its_token_or_ends(
    database: ScratchDatabase, provider: Provider
) -> None:
    async with interface(database, **provider.settings) as it:
        await it.http.post("/login", data={"token": (await it.rowen.access.add_token("ci", scope="write")).secret})
        database.query("update access_session set name = 'ci' returning 1")
        of_token = await it.http.get("/api/v1/me")
        database.query("update access_session set name = 'local', token_id = null returning 1")
        of_person = await it.http.get("/api/v1/me")

    assert (of_token.json(), of_person.status_code) == ({"name": "token:ci", "scope": "write"}, 401)


@pytest.mark.parametrize("expires", [10**18, 10**400, 1e308])
async def test_a_token_that_ends_after_all_time_holds_until_then(
    database: ScratchDatabase, provider: Provider, expires: float
) -> None:
    async with interface(database, **provider.settings) as it:
        asked = await status(it, provider.token(exp=expires))
        entered = await it.http.post("/login", data={"token": provider.token(exp=expires)})

    assert (asked, entered.status_code) == (200, 303)


async def test_a_signed_token_with_strange_claims_names_a_plain_name_or_nobody(
    database: ScratchDatabase, provider: Provider
) -> None:
    texts = ["", "\x00", "\ud800", "a\nb", "\u202ex", "x" * 300]
    strange = [None, True, float("nan"), float("-inf"), -(10**400), *texts, [[]], {}]
    async with interface(database, **provider.settings) as it:
        for claim in ("sub", "exp", "nbf", "iat", "iss", "aud", "email", "email_verified", "realm_access"):
            for value in strange:
                token = provider.token(**{"email": "ada@example.org", "email_verified": True, claim: value})
                named, session = await it.rowen.access.identify(token), await it.rowen.access.open_session(token)
                assert named is None or named.name in ("email:ada@example.org", "sub:u1"), (claim, value)
                assert (named is None) == (session is None), (claim, value)


@pytest.mark.parametrize("part", [0, 1])
async def test_deeply_nested_json_in_a_token_is_no_error_of_the_server(
    database: ScratchDatabase, provider: Provider, part: int
) -> None:
    parts = provider.token().split(".")
    parts[part] = base64.urlsafe_b64encode(b"[" * 8000).decode().rstrip("=")
    async with interface(database, **provider.settings) as it:
        assert await status(it, ".".join(parts)) == 401


async def test_a_browser_logs_in_with_a_token_of_the_provider(database: ScratchDatabase, provider: Provider) -> None:
    async with interface(database, **provider.settings) as it:
        entered = await it.http.post("/login", data={"token": provider.token(), "next": "/"})
        me = await it.http.get("/api/v1/me")
        [(left_s,)] = database.query("select extract(epoch from expires_at - now())::int from access_session")

    assert (entered.status_code, me.json()) == (303, {"name": "sub:u1", "scope": "write"})
    assert 500 < left_s <= 600


async def test_a_person_logs_in_at_the_provider_and_comes_back_with_a_session(
    database: ScratchDatabase, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OIDC_SECRET", "s3cret")
    async with interface(database, **provider.settings, oidc_client_secret="env:OIDC_SECRET") as it:
        page = await it.http.get("/login?next=/runs")
        left = await it.http.get("/login/oidc?next=/runs")
        asked = dict(parse_qsl(urlsplit(left.headers["location"]).query))
        provider.nonce = asked["nonce"]
        forged = await it.http.get("/login/callback", params={"code": "c1", "state": "guessed"})
        back = await it.http.get("/login/callback", params={"code": "c1", "state": asked["state"]})
        me = await it.http.get("/api/v1/me")

    challenge = (
        base64.urlsafe_b64encode(sha256(provider.posted["code_verifier"].encode()).digest()).decode().rstrip("=")
    )
    assert "/login/oidc?next=/runs" in page.text
    assert left.headers["location"].startswith(f"{provider.url}/authorize?")
    assert (asked["client_id"], asked["redirect_uri"]) == ("rowen", "http://127.0.0.1:8400/login/callback")
    assert (asked["code_challenge"], provider.posted["client_secret"]) == (challenge, "s3cret")
    assert (forged.status_code, back.status_code, "url=/runs" in back.text) == (401, 200, True)
    assert me.json() == {"name": "sub:u1", "scope": "write"}


async def test_a_login_that_was_made_for_another_browser_is_none(database: ScratchDatabase, provider: Provider) -> None:
    async with interface(database, **provider.settings) as it:
        left = await it.http.get("/login/oidc")
        asked = dict(parse_qsl(urlsplit(left.headers["location"]).query))
        provider.nonce = "of another"
        replayed = await it.http.get("/login/callback", params={"code": "c1", "state": asked["state"]})
        me = await it.http.get("/api/v1/me")

    assert (replayed.status_code, me.status_code) == (401, 401)


async def test_over_tls_a_login_starts_with_a_cookie_that_no_other_host_can_set(
    database: ScratchDatabase, provider: Provider
) -> None:
    async with interface(database, **provider.settings, base="https://127.0.0.1:8400") as it:
        left = await it.http.get("/login/oidc")
        asked = dict(parse_qsl(urlsplit(left.headers["location"]).query))
        name, _, value = left.headers["set-cookie"].partition(";")[0].partition("=")
        provider.nonce = asked["nonce"]
        it.http.cookies.clear()
        planted = {"Cookie": f"rowen_login={value}"}
        state = {"code": "c1", "state": asked["state"]}
        forged = await it.http.get("/login/callback", params=state, headers=planted)
        back = await it.http.get("/login/callback", params=state, headers={"Cookie": f"{name}={value}"})

    assert name == "__Host-rowen_login"
    assert (forged.status_code, back.status_code) == (401, 200)


def test_a_provider_without_an_audience_or_roles_is_an_error_at_the_start(database: ScratchDatabase) -> None:
    with pytest.raises(ConfigurationError, match="not for whom its tokens are meant"):
        assemble(Rowen(database.settings(oidc_issuer="https://id.example.org")), trusts_loopback=True)
