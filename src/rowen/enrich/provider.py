"""Calls of a paid service: JSON over HTTP, with retries, budgets, and a record of every attempt.

The key is sent only to the origin that the user configured. Temporary errors are retried with backoff, or after the
delay that the service requests; the circuit is that of the service's host in the HTTP client. Budgets are checked
before a call. Calls in flight in other processes are unknown, so each process may exceed a budget by one call.
"""

import asyncio
import json
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from rowen.enrich.ledger import SOURCE_PERIOD, Budgets, Ledger, NoLedger, current_charge, current_purse
from rowen.errors import (
    BudgetExceededError,
    CircuitOpenError,
    ConfigurationError,
    FetchError,
    FetchTimeoutError,
    ProviderAnswerError,
    ProviderDownError,
    ProviderError,
    ProviderKeyError,
    ProviderRefusedError,
    StoreError,
    TruncatedError,
)
from rowen.model.models import CallResult, Charge, LedgerEntry, Price, TokenUsage
from rowen.net.circuits import State
from rowen.net.credentials import Credentials
from rowen.net.politeness import backoff_s
from rowen.net.target import parse, redact
from rowen.settings import Settings

if TYPE_CHECKING:
    from rowen.net.client import Client
    from rowen.net.response import Response

log = logging.getLogger(__name__)
# One or two sentences: enough for the reason, too short to contain a prompt.
_REASON_CHARS = 300
_NONE = TokenUsage()
_DENIALS = frozenset({401, 403})
# Some providers answer 400 for an unknown model; this error concerns all inputs.
_MODEL_CODES = frozenset({"model_not_found", "unknown_model", "invalid_model"})
_NO_SUCH_MODEL = re.compile(
    r"\b(?:unknown|invalid|no such) model\b|\bnot a valid model\b"
    r"|\bmodel\b[^.]{0,100}\b(?:does not exist|(?:was |is )?not found)\b",
    re.IGNORECASE,
)
# A dated release has the price of its model, unless the table lists it separately.
_DAY = re.compile(r"-(?:20\d{6}|20\d\d-\d\d-\d\d|latest)$")
GEMINI_HOME = "https://generativelanguage.googleapis.com/v1beta"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def api_address(named: str | None, home: str, *, key_setting: str) -> str:
    """Return the base address of an API; raise `ConfigurationError` if it contains a password, since it is stored."""
    url = (named or home).rstrip("/")
    if parse(url).login:
        raise ConfigurationError(
            f"{redact(url)} contains a password, which would be stored in clear.",
            hint=f"Leave it out, and set {key_setting} to where the key is found: env:NAME or file:PATH.",
        )
    return url


class Key(NamedTuple):
    """A provider's key, the only origin that may receive it, and the place where it was found; without a key, None."""

    origin: str
    credentials: Credentials | None
    place: str | None = None

    @classmethod
    def for_address(
        cls, named: str, value: str | None, *, header: str, form: str = "{}", setting: str = "the settings"
    ) -> "Key":
        """Return a key, or a reference to its place, limited to the origin of an address that the user configured."""
        if not value:
            return cls(parse(named).origin, Credentials.of(named, {}))
        kind, _, name = value.partition(":")
        places = {"env": f"in the environment variable {name}", "file": f"in the file {name}"}
        credentials = Credentials.of(named, {header: form.format(value)})
        return cls(parse(named).origin, credentials, places.get(kind, f"of {setting}"))


@dataclass(frozen=True, slots=True)
class PaidCall:
    """The purpose of a call, such as `embed` or `extract`, and its expected cost.

    `usage` reads the token counts from an answer; if it returns None, the expected counts are used.
    """

    purpose: str
    model: str
    inputs: int
    expected: TokenUsage
    price: Price | None = None
    usage: Callable[[dict[str, Any]], TokenUsage | None] = lambda _: None
    limit_s: float | None = None
    idle_s: float | None = None


@dataclass(slots=True)
class _Attempt:
    """One request, to be recorded in the ledger."""

    started_s: float
    result: CallResult | None = None
    status: int | None = None
    usage: TokenUsage = _NONE


class Provider:
    """A paid service: its address, the key, and the budgets."""

    def __init__(
        self,
        url: str,
        *,
        key: Key,
        client: Callable[[], Awaitable["Client"]],
        settings: Settings,
        ledger: Ledger | None = None,
        headers: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        random: Random | None = None,
    ) -> None:
        self.name = parse(url).host
        self.is_named = key.origin == parse(url).origin
        self._credentials = key.credentials
        self._key_place = key.place if self.is_named else None
        self._client = client
        self._settings = settings
        self._budgets = Budgets.of(settings)
        self._ledger: Ledger = ledger if ledger is not None else NoLedger()
        self._headers = {"Content-Type": "application/json", **(headers or {})}
        self._clock = clock
        self._sleep = sleep
        self._now = now
        self._random = random or Random()  # noqa: S311 - jitter, not a secret
        self._begun_usd = self._settled_usd = 0.0
        self._begun_tokens = self._settled_tokens = 0
        self._recording: set[asyncio.Task[None]] = set()
        self._first_call = asyncio.Lock()
        self._is_key_accepted = False
        self._denials, self._denial = 0, ""

    async def post(self, url: str, question: Mapping[str, Any], call: PaidCall) -> dict[str, Any]:
        """Return the JSON object of the answer; raise a `ProviderError` if the call fails.

        Until the provider has accepted the key, one call is made at a time, and waiting calls share its rejection: a
        wrong key costs one call, even for many texts.
        """
        body = json.dumps(question).encode()
        charge = current_charge()
        async with self._within_purse(call), self._within_budgets(call, charge):
            if not self._is_key_accepted:
                denials = self._denials
                async with self._first_call:
                    if self._denials != denials:
                        raise ProviderKeyError(self._denial)
                    if not self._is_key_accepted:
                        return await self._post_with_retries(url, body, call, charge)
            return await self._post_with_retries(url, body, call, charge)

    async def _post_with_retries(self, url: str, body: bytes, call: PaidCall, charge: Charge) -> dict[str, Any]:
        for attempt in count(1):
            try:
                return await self._attempt(url, body, call, charge)
            except ProviderDownError as problem:
                if isinstance(problem.__cause__, CircuitOpenError) or attempt >= self._settings.fetch_tries:
                    raise
                circuit = (await self._client()).breakers.of(self.name)
                if problem.retry_in_s > self._settings.retry_after_limit_s or circuit.state() is State.OPEN:
                    raise
                wait_s = problem.retry_in_s or backoff_s(attempt, self._random)
            except ProviderKeyError as problem:
                self._denials, self._denial = self._denials + 1, str(problem)
                raise
            await self._sleep(wait_s)
            log.info("waited %.1f s to call %s again", wait_s, self.name)
        raise AssertionError

    def unreadable(self, why: str) -> ProviderAnswerError:
        """Return the error for an unreadable answer."""
        return ProviderAnswerError(f"The answer of {self.name} cannot be read: {why}.")

    async def close(self) -> None:
        """Wait until every attempt is recorded."""
        await asyncio.gather(*self._recording, return_exceptions=True)

    @asynccontextmanager
    async def _within_purse(self, call: PaidCall) -> AsyncIterator[None]:
        """Reserve the expected cost of a call; recording an attempt replaces the reservation by the actual cost."""
        purse = current_purse()
        if purse is None:
            yield
            return
        usd, tokens = self._expected_cost(call, needs_price=purse.needs_price)
        purse.reserve(self.name, usd, tokens)
        try:
            yield
        finally:
            purse.settle(-usd, -tokens)

    def _expected_cost(self, call: PaidCall, *, needs_price: bool) -> tuple[float, int]:
        if needs_price and call.price is None:
            message = f"{self.name} was not called: there is a budget, and the price of {call.model} is unknown."
            raise BudgetExceededError(message, scope="price")
        return (call.price.of(call.expected) if call.price else 0.0), sum(call.expected)

    @asynccontextmanager
    async def _within_budgets(self, call: PaidCall, charge: Charge) -> AsyncIterator[None]:
        if not self._budgets:
            yield
            return
        usd, tokens = self._expected_cost(call, needs_price=self._budgets.needs_price)
        self._budgets.check_call(self.name, usd, tokens)
        now = self._now()
        day = now.replace(hour=0, minute=0, second=0, microsecond=0)
        # Calls that end while the ledger is read may be missing in the ledger; they still count as in flight.
        settled_usd, settled_tokens = self._settled_usd, self._settled_tokens
        spent = await self._ledger.spent(charge, day=day, source_since=now - SOURCE_PERIOD)
        more_usd, more_tokens = self._begun_usd - settled_usd + usd, self._begun_tokens - settled_tokens + tokens
        self._budgets.check(self.name, spent, charge, more_usd, more_tokens)
        self._begun_usd += usd
        self._begun_tokens += tokens
        try:
            yield
        finally:
            self._settled_usd += usd
            self._settled_tokens += tokens

    async def _attempt(self, url: str, body: bytes, call: PaidCall, charge: Charge) -> dict[str, Any]:
        """Send one request, and record its result unless the request was not sent."""
        client = await self._client()
        attempt = _Attempt(self._clock())
        try:
            response = await client.request(
                "POST",
                url,
                headers=self._headers,
                accept="application/json",
                credentials=self._credentials,
                body=body,
                limit_s=call.limit_s,
                idle_s=call.idle_s,
                tries=1,
                follow=False,
            )
            attempt.status = response.status
            self._is_key_accepted = response.status not in _DENIALS
            return self._read(response, call, attempt)
        except CircuitOpenError as problem:
            hint = f"It may be called again in {problem.retry_in_s:.0f} s."
            raise ProviderDownError(str(problem), retry_in_s=problem.retry_in_s, hint=hint) from problem
        except FetchError as problem:
            attempt.result = "unreachable"
            # A provider that did not answer in time may have processed the request, and may charge for it.
            if isinstance(problem, FetchTimeoutError | TruncatedError):
                attempt.usage = call.expected
            error = ProviderDownError if problem.retryable else ProviderError
            raise error(str(problem), hint=problem.hint) from problem
        except asyncio.CancelledError:
            attempt.result, attempt.usage = "cancelled", call.expected
            raise
        finally:
            if attempt.result is not None:
                recording = self._start_recording(attempt, call, charge)
                if attempt.result != "cancelled":
                    await asyncio.shield(recording)

    def _read(self, response: "Response", call: PaidCall, attempt: _Attempt) -> dict[str, Any]:
        if not response.ok:
            attempt.result, problem = self._failure(response)
            raise problem
        attempt.result, attempt.usage = "unreadable", call.expected
        try:
            answer = json.loads(response.body)
        except (ValueError, RecursionError):
            raise self.unreadable("it is not JSON") from None
        if not isinstance(answer, dict):
            raise self.unreadable("it is no object")
        attempt.result, attempt.usage = "answered", call.usage(answer) or call.expected
        return answer

    def _failure(self, response: "Response") -> tuple[CallResult, ProviderError]:
        """Return the result and the error for a response that is not a success."""
        status, retry_in_s = response.status, response.retry_after_s or 0.0
        match status:
            case 401 | 403:
                # The body is not quoted, since some providers repeat a part of the key.
                reason = f"does not accept the key {self._key_place}"
                reason = reason if self._key_place else "wants a key; none was sent"
                return "denied", ProviderKeyError(f"{self.name} {reason} (status {status}).")
            case 400 | 413 | 422:
                why, about = _named_reason(response.body)
                message = f"{self.name} refused (status {status}): {_reason(response.body)}"
                if about == "model" or why in _MODEL_CODES or _NO_SUCH_MODEL.search(message):
                    return "failed", ProviderError(message)
                return "refused", ProviderRefusedError(message, reason=why, about=about)
            case 408 | 409 | 425 | 429:
                message = f"{self.name} asks to wait (status {status})."
                return "busy", ProviderDownError(message, retry_in_s=retry_in_s, busy=True)
            case _ if status >= 500:
                return "failed", ProviderDownError(f"{self.name} failed (status {status}).", retry_in_s=retry_in_s)
        return "failed", ProviderError(f"{self.name} answered with status {status}: {_reason(response.body)}")

    def _start_recording(self, attempt: _Attempt, call: PaidCall, charge: Charge) -> "asyncio.Task[None]":
        assert attempt.result is not None  # noqa: S101 (checked by the caller)
        usd = None if call.price is None else call.price.of(attempt.usage)
        latency_s = self._clock() - attempt.started_s
        if (purse := current_purse()) is not None:
            purse.settle(usd or 0.0, sum(attempt.usage))
            purse.count(latency_s)
        entry = LedgerEntry(
            at=self._now(),
            purpose=call.purpose,
            provider=self.name,
            model=call.model,
            inputs=call.inputs,
            usage=attempt.usage,
            usd=usd,
            latency_s=latency_s,
            result=attempt.result,
            status=attempt.status,
            charge=charge,
        )
        task = asyncio.create_task(self._record(entry))
        self._recording.add(task)
        task.add_done_callback(self._recording.discard)
        return task

    async def _record(self, entry: LedgerEntry) -> None:
        """Store an entry; if that fails, log the error, so that the paid answer is not lost."""
        try:
            await self._ledger.record(entry)
        except StoreError as problem:
            log.warning("a call of %s is missing in the ledger: %s", self.name, problem)


def _named_reason(body: bytes) -> tuple[str | None, str | None]:
    """Return the provider's code for an error, and the parameter that it concerns; None if they are missing."""
    try:
        error = json.loads(body).get("error")
    except (ValueError, RecursionError, AttributeError):
        return None, None
    if not isinstance(error, dict):
        return None, None
    code = next((word for name in ("code", "type", "status") if isinstance(word := error.get(name), str)), None)
    about = error.get("param")
    return code, about if isinstance(about, str) else None


def _reason(body: bytes) -> str:
    """Return the provider's error message, truncated and without control characters."""
    try:
        reason = json.loads(body)
    except (ValueError, RecursionError):
        reason = None
    while isinstance(reason, dict):
        reason = reason.get("error") or reason.get("message") or reason.get("detail") or ""
    words = reason if isinstance(reason, str) and reason else body[:_REASON_CHARS].decode("utf-8", "replace")
    printable = "".join(c if c.isprintable() else " " for c in words)
    return " ".join(printable.split())[:_REASON_CHARS] or "no reason given"


def configured_price(setting: str | None, model: str) -> Price | None:
    """Return the user's price of a model, None if none is set: `1/4` for all models, `small=0.1/0.4` for one."""
    prices: dict[str, Price] = {}
    for part in filter(None, map(str.strip, (setting or "").split(","))):
        name, _, figures = part.rpartition("=")
        sent, _, received = figures.partition("/")
        prices[name.strip()] = Price(float(sent), float(received or sent))
    return prices.get(model, prices.get(""))


def known_price(url: str, model: str) -> Price | None:
    """Return a provider's listed price of a model; None for other servers with the same API, and for unknown models."""
    target = parse(url)
    listed = _table().get(target.host, {}) if target.origin.startswith("https://") else {}
    price = listed.get(model) or listed.get(_DAY.sub("", model))
    return Price(*price) if price else None


@cache
def _table() -> Mapping[str, Mapping[str, tuple[float, float]]]:
    """Return the listed prices by host and model."""
    text = (files("rowen.enrich") / "data" / "prices.json").read_text("utf-8")
    hosts: Mapping[str, Mapping[str, tuple[float, float]]] = json.loads(text)["hosts"]
    return hosts


def gemini_model(reference: str) -> str:
    """Return a model's name without `models/`; raise `ConfigurationError` if the name could lead to another path."""
    name = reference.removeprefix("models/")
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{reference[:200]!r} is not the name of a Gemini model. Nothing was sent.",
            hint="A name has letters, digits, dots, hyphens and underscores, such as gemini-2.5-flash-lite.",
        )
    return name
