"""Signatures of pushes: the vectors of those who define them, and what does not pass."""

import hashlib
import hmac

import pytest

from rowen.model.webhooks import derived, is_hub_signed, is_webhook_signed, webhook_secret, webhook_signature


def test_the_example_of_github_is_signed() -> None:
    """From GitHub's page on validating webhook deliveries."""
    signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"

    assert is_hub_signed(signature, b"Hello, World!", "It's a Secret to Everybody")
    assert not is_hub_signed(signature, b"Hello, World?", "It's a Secret to Everybody")
    assert not is_hub_signed(signature, b"Hello, World!", "It's a secret to everybody")


def test_the_example_of_standard_webhooks_is_signed() -> None:
    """From the specification of Standard Webhooks."""
    signature = webhook_signature(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "1614265330",
        b'{"test": 2432232314}',
    )

    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("method", ["sha1", "sha256", "sha384", "sha512"])
def test_hubs_may_sign_by_any_method_of_the_standard(method: str) -> None:
    signature = hmac.new(b"secret", b"body", getattr(hashlib, method)).hexdigest()

    assert is_hub_signed(f"{method}={signature}", b"body", "secret")
    assert is_hub_signed(f"{method.upper()}={signature.upper()}", b"body", "secret")
    assert not is_hub_signed(f"{method}={signature[:-1]}", b"body", "secret")


@pytest.mark.parametrize("header", [None, "", "sha256", "sha256=", "md5=0", "=", "sha256=é", "none=", "a" * 9999])
def test_what_is_no_signature_does_not_fit(header: str | None) -> None:
    assert not is_hub_signed(header, b"body", "secret")
    assert not is_webhook_signed(header, webhook_secret(b"k" * 32), delivery="1", timestamp="2", body=b"body")


def test_one_of_several_signatures_is_enough() -> None:
    secret = webhook_secret(b"k" * 32)
    signature = webhook_signature(secret, "1", "2", b"body")

    assert is_webhook_signed(f"v1a,xyz v1,AAAA {signature}", secret, delivery="1", timestamp="2", body=b"body")
    assert not is_webhook_signed(signature, secret, delivery="1", timestamp="3", body=b"body")
    assert not is_webhook_signed(signature, secret, delivery="11", timestamp="2", body=b"body")


def test_secrets_of_two_purposes_differ_also_where_their_letters_run_together() -> None:
    purposes = [("a", "bc"), ("ab", "c"), ("abc",), ('a", "bc',)]

    assert len({derived(b"key", *purpose) for purpose in purposes}) == len(purposes)
