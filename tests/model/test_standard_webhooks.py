"""Our signatures are those of Standard Webhooks, by a verifier that is written here from its specification."""

import base64
import hashlib
import hmac
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.model.webhooks import is_webhook_signed, webhook_secret, webhook_signature

# Published with the specification, for its libraries to be tested with.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SENT = {"delivery": "msg_p5jXN8AQM9LWM0D4loKWxJek", "timestamp": "1614265330", "body": b'{"test": 2432232314}'}
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
TOLERANCE_S = 300


def verified(secret: str, headers: dict[str, str], body: bytes, *, now: int) -> bool:
    """Verify a message as the specification tells a receiver to."""
    delivery, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not delivery or not re.fullmatch(r"[0-9]+", timestamp) or abs(now - int(timestamp)) > TOLERANCE_S:
        return False
    text = secret.removeprefix("whsec_").rstrip("=")
    key = base64.b64decode(text + "=" * (-len(text) % 4))
    signed = b".".join([delivery.encode(), timestamp.encode(), body])
    expected = hmac.new(key, signed, hashlib.sha256).digest()
    for one in headers.get("webhook-signature", "").split(" "):
        version, _, signature = one.partition(",")
        if version == "v1" and hmac.compare_digest(base64.b64decode(signature), expected):
            return True
    return False


def test_the_published_example_is_signed_and_verified_as_it_was_published() -> None:
    assert webhook_signature(SECRET, SENT["delivery"], SENT["timestamp"], SENT["body"]) == SIGNATURE
    assert is_webhook_signed(SIGNATURE, SECRET, **SENT)
    assert not is_webhook_signed(SIGNATURE, SECRET, **{**SENT, "body": b'{"test":2432232314}'})


# What the Python libraries of the specification and of Svix sign; they verified what this version signs as well.
OF_LIBRARIES = [
    (
        "standardwebhooks 1.1.0",
        24,
        "whsec_dYn2+Jphz6P7NMsZazrC8wq+ZBSJiFy9",
        "v1,ZcCTPK7NOwDZTseSdrMFXj3w8I5jB8eSnt1SlDwh/q0=",
    ),
    (
        "standardwebhooks 1.1.0",
        32,
        "whsec_KsAMKJkBgIiseQvKeM2l8wcTZ88vA3Leweo8oWRUAz8=",
        "v1,N+h6L5b45w+cZA9irH/HYx65jZJmPHem00ZpzNGP0Tk=",
    ),
    (
        "standardwebhooks 1.1.0",
        64,
        "whsec_mh5nhEzhW8TzW+1D+Okt8EIoa0PIhC41w5ckdBsuu23gkavbu1o9ItRBPjhPTxqRz54L/aZRYTKtf9twMZFxKA==",
        "v1,95vg8JQ61ctvO8UfEQMYkj4W5h/FmVfxSl5y3PXlJVo=",
    ),
    (
        "svix 2.9.1",
        24,
        "whsec_+Ij6V2HqU0ObNjZsTP2El3m3tyUtZ0cV",
        "v1,0suHsZLU9KPYWvbkW4ZoCeduzbmSkT3NqOOGqx33Pzw=",
    ),
    (
        "svix 2.9.1",
        32,
        "whsec_DDIyVzCLkYLLjxOAp/13DUMAXMe/D2iZIOBvIz+lPYs=",
        "v1,nzpkAMD29aRE3ErNEdG8C4dHLW315cDUgx8suFNtWUM=",
    ),
    (
        "svix 2.9.1",
        64,
        "whsec_oUUkXxIS5EokIqSitFWVjGWyPgOC9Urw+hatbo4kFWgtv+ULfIN6mb6ig+xycgArv41HYWjzeAh63BU5Wfoxwg==",
        "v1,4ubkvtIAiB4kxk5/kqEOuhzxnBl6TBU8QcMd49iOh+g=",
    ),
]


@pytest.mark.parametrize(("library", "number", "secret", "signature"), OF_LIBRARIES)
def test_other_libraries_sign_the_same(library: str, number: int, secret: str, signature: str) -> None:
    body = f'{{"title": "T\u00eft\u202ele \U0001f600", "n": {number}}}'.encode()

    assert webhook_signature(secret, f"rowen-1-{number}", "1767225600", body) == signature, library


@given(key=st.binary(min_size=24, max_size=64), body=st.binary(max_size=200), number=st.integers(1, 2**40))
def test_others_verify_what_we_sign_with_any_secret_padded_or_not(key: bytes, body: bytes, number: int) -> None:
    secret, delivery = webhook_secret(key), f"rowen-1-{number}"
    ours = " ".join(webhook_signature(one, delivery, "1614265330", body) for one in (secret, SECRET))
    headers = {"webhook-id": delivery, "webhook-timestamp": "1614265330", "webhook-signature": ours}

    assert all(verified(one, headers, body, now=1614265330) for one in (secret, secret.rstrip("="), SECRET))
    assert webhook_signature(secret.rstrip("="), delivery, "1", body) == webhook_signature(secret, delivery, "1", body)
    assert not verified(secret, headers, body + b" ", now=1614265330)
    assert not verified(secret, headers, body, now=1614265330 + TOLERANCE_S + 1)


@pytest.mark.parametrize(
    ("header", "is_believed"),
    [
        (
            f"v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg== {SIGNATURE}",
            True,
        ),
        (f"v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc= {SIGNATURE}", True),
        (f"{SIGNATURE} v2,x", True),
        (SIGNATURE.replace("v1,", "v1a,"), False),
        (SIGNATURE.replace("v1,", "v2,"), False),
        (SIGNATURE.replace("v1,", ""), False),
        (SIGNATURE.rstrip("="), False),
        (f"{SIGNATURE}=", False),
        (SIGNATURE.replace("+", "-").replace("/", "_"), False),
        (SIGNATURE.lower(), False),
        (SIGNATURE.replace(",", ", "), False),
        (" ".join(["v1,AAAA"] * 8 + [SIGNATURE]), False),
        ("v1,", False),
        ("v1,\udcff \x00 é", False),
        ("", False),
        (None, False),
    ],
)
def test_of_several_signatures_one_of_our_version_in_padded_base64_has_to_fit(
    header: str | None, is_believed: bool
) -> None:
    assert is_webhook_signed(header, SECRET, **SENT) is is_believed


@pytest.mark.parametrize("secret", ["épée-épée-épée-épée", "whsec_not base64", "whsec_", "\udcff", "a-b-c", ""])
def test_no_secret_that_a_file_may_have_ends_in_an_error(secret: str) -> None:
    assert webhook_signature(secret, "1", "2", b"x").startswith("v1,")
