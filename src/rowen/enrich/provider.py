"""One way to call a paid service over HTTP: JSON goes in, JSON comes out, and every attempt is recorded.

The key goes to the origin that the user named and to no other. What is passing is tried again, with backoff and within
what the service asks for; its circuit is that of its host in the HTTP client. Budgets are checked before a call: what
other processes have in flight at that moment is not known, so that a budget may be exceeded by one call each.
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
# A sentence or two: enough to know the reason, too short to repeat a prompt.
_REASON_CHARS = 300
_NONE = TokenUsage()
_DENIALS = frozenset({401, 403})
# A wrong model is refused with 400 by some providers. It is wrong for all inputs, not for one.
_MODEL_CODES = frozenset({"model_not_found", "unknown_model", "invalid_model"})
_NO_SUCH_MODEL = re.compile(
    r"\b(?:unknown|invalid|no such) model\b|\bnot a valid model\b"
    r"|\bmodel\b[^.]{0,100}\b(?:does not exist|(?:was |is )?not found)\b",
    re.IGNORECASE,
)
# A release of a model by its day costs what the model costs, unless the table has it by itself.
_DAY = re.compile(r"-(?:20\d{6}|20\d\d-\d\d-\d\d|latest)$")
GEMINI_HOME = "https://generativelanguage.googleapis.com/v1beta"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def api_address(named: str | None, home: str, *, key_setting: str) -> str:
    """Return the base address of an API; refuse a password in it, since the address is stored."""
    url = (named or home).rstrip("/")
    if parse(url).login:
        raise ConfigurationError(
            f"{redact(url)} contains a password, which would be stored in clear.",
            hint=f"Leave it out, and set {key_setting} to where the key is found: env:NAME or file:PATH.",
        )
    return url


class Key(NamedTuple):
    """A provider's key, the one origin that may receive it, and where it was found, None for no key."""

    origin: str
    credentials: Credentials | None
    place: str | None = None

    @classmethod
    def for_address(
        cls, named: str, value: str | None, *, header: str, form: str = "{}", setting: str = "the settings"
    ) -> "Key":
        """Return a key, or a reference to where one is found, for the origin of an address that the user named."""
        credentials = Credentials.of(named, {header: form.format(value)} if value else {})
        return cls(parse(named).origin, credentials, _place_of(value, setting) if value else None)


@dataclass(frozen=True, slots=True)
class PaidCall:
    """The purpose of a call, such as `embed` or `extract`, and its expected cost.

    `usage` reads the tokens off an answer; without it, or where the answer does not tell, they are those expected.
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
    """One request, as the ledger will show it."""

    started_s: float
    result: CallResult | None = None
    status: int | None = None
    usage: TokenUsage = _NONE


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Provider:
    """One paid service: where it is, who we are there, what it may cost."""

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
        now: Callable[[], datetime] = _utc_now,
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
        """Return the JSON object that answers; raise a `ProviderError` where there is none to be had.

        Until the provider has accepted the key, one call is made at a time, and the others that wait share its denial:
        a wrong key costs one call, however many texts there are.
        """
        body = json.dumps(question).encode()
        charge = current_charge()
        async with self._within_purse(call), self._within_budgets(call, charge):
            if not self._is_key_accepted:
                answer = await self._ask_first(url, body, call, charge)
                if answer is not None:
                    return answer
            return await self._persist(url, body, call, charge)

    async def _ask_first(self, url: str, body: bytes, call: PaidCall, charge: Charge) -> dict[str, Any] | None:
        """Call while the key is unproved, one at a time; return None if another call has proved it meanwhile."""
        denials = self._denials
        async with self._first_call:
            if self._denials != denials:
                raise ProviderKeyError(self._denial)
            return None if self._is_key_accepted else await self._persist(url, body, call, charge)

    async def _persist(self, url: str, body: bytes, call: PaidCall, charge: Charge) -> dict[str, Any]:
        """Call until there is an answer, or calling again cannot help."""
        tried = 0
        while True:
            tried += 1
            try:
                return await self._attempt(url, body, call, charge)
            except ProviderDownError as problem:
                if not await self._may_retry(problem, tried):
                    raise
                wait_s = problem.retry_in_s or backoff_s(tried, self._random)
            except ProviderKeyError as problem:
                self._denials, self._denial = self._denials + 1, str(problem)
                raise
            await self._sleep(wait_s)
            log.info("waited %.1f s to call %s again", wait_s, self.name)

    def unreadable(self, why: str) -> ProviderAnswerError:
        """Return the error for an answer of another shape than agreed."""
        return ProviderAnswerError(f"The answer of {self.name} cannot be read: {why}.")

    async def close(self) -> None:
        """Wait until every attempt is recorded."""
        await asyncio.gather(*self._recording, return_exceptions=True)

    @asynccontextmanager
    async def _within_purse(self, call: PaidCall) -> AsyncIterator[None]:
        """Reserve what a call may cost; what each attempt really costs is settled as it is recorded."""
        purse = current_purse()
        if purse is None:
            yield
            return
        if purse.needs_price and call.price is None:
            raise self._priceless(call)
        usd, tokens = (call.price.of(call.expected) if call.price else 0.0), sum(call.expected)
        purse.reserve(self.name, usd, tokens)
        try:
            yield
        finally:
            purse.settle(-usd, -tokens)

    def _priceless(self, call: PaidCall) -> BudgetExceededError:
        told = f"{self.name} was not called: there is a budget, and nobody knows the price of {call.model}."
        return BudgetExceededError(told, scope="price")

    @asynccontextmanager
    async def _within_budgets(self, call: PaidCall, charge: Charge) -> AsyncIterator[None]:
        if not self._budgets:
            yield
            return
        if self._budgets.needs_price and call.price is None:
            raise self._priceless(call)
        usd, tokens = (call.price.of(call.expected) if call.price else 0.0), sum(call.expected)
        self._budgets.check_call(self.name, usd, tokens)
        now = self._now()
        day = now.replace(hour=0, minute=0, second=0, microsecond=0)
        # What ends while the ledger is read may be missing in it, and so still counts as in flight.
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

    async def _may_retry(self, problem: ProviderDownError, tried: int) -> bool:
        if isinstance(problem.__cause__, CircuitOpenError) or tried >= self._settings.fetch_tries:
            return False
        circuit = (await self._client()).breakers.of(self.name)
        return problem.retry_in_s <= self._settings.retry_after_limit_s and circuit.state() is not State.OPEN

    async def _attempt(self, url: str, body: bytes, call: PaidCall, charge: Charge) -> dict[str, Any]:
        """One request; whatever becomes of it is recorded, unless it was not made."""
        client = await self._client()
        attempt = _Attempt(self._clock())
        try:
            response = await self._send(client, url, body, call)
            attempt.status = response.status
            self._is_key_accepted = response.status not in _DENIALS
            return self._read(response, call, attempt)
        except CircuitOpenError as problem:
            raise self._unreached(problem) from problem
        except FetchError as problem:
            attempt.result = "unreachable"
            # Who did not answer in time may have done the work, and will have it paid.
            if isinstance(problem, FetchTimeoutError | TruncatedError):
                attempt.usage = call.expected
            raise self._unreached(problem) from problem
        except asyncio.CancelledError:
            attempt.result, attempt.usage = "cancelled", call.expected
            raise
        finally:
            if attempt.result is not None:
                recording = self._start_recording(attempt, call, charge)
                if attempt.result != "cancelled":
                    await asyncio.shield(recording)

    async def _send(self, client: "Client", url: str, body: bytes, call: PaidCall) -> "Response":
        return await client.request(
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
        """Return the result and the error for a status other than success."""
        status, retry_in_s = response.status, response.retry_after_s or 0.0
        match status:
            case 401 | 403:
                # The body is not repeated: some providers put a part of the key there.
                told = f"does not accept the key {self._key_place}" if self._key_place else "wants a key; none was sent"
                return "denied", ProviderKeyError(f"{self.name} {told} (status {status}).")
            case 400 | 413 | 422:
                why, about = _named_reason(response.body)
                told = f"{self.name} refused (status {status}): {_reason(response.body)}"
                if about == "model" or why in _MODEL_CODES or _NO_SUCH_MODEL.search(told):
                    return "failed", ProviderError(told)
                return "refused", ProviderRefusedError(told, reason=why, about=about)
            case 408 | 409 | 425 | 429:
                message = f"{self.name} asks to wait (status {status})."
                return "busy", ProviderDownError(message, retry_in_s=retry_in_s, busy=True)
            case _ if status >= 500:
                return "failed", ProviderDownError(f"{self.name} failed (status {status}).", retry_in_s=retry_in_s)
        return "failed", ProviderError(f"{self.name} answered with status {status}: {_reason(response.body)}")

    def _unreached(self, problem: FetchError) -> ProviderError:
        """Return the error for a failed exchange."""
        if isinstance(problem, CircuitOpenError):
            hint = f"It may be called again in {problem.retry_in_s:.0f} s."
            return ProviderDownError(str(problem), retry_in_s=problem.retry_in_s, hint=hint)
        return (ProviderDownError if problem.retryable else ProviderError)(str(problem), hint=problem.hint)

    def _start_recording(self, attempt: _Attempt, call: PaidCall, charge: Charge) -> "asyncio.Task[None]":
        assert attempt.result is not None  # noqa: S101 (the caller looked)
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
        """Keep an entry. One that cannot be kept costs no answer: that was paid for."""
        try:
            await self._ledger.record(entry)
        except StoreError as problem:
            log.warning("a call of %s is missing in the ledger: %s", self.name, problem)


def _place_of(value: str, setting: str) -> str:
    """Return where a key was found, without the key."""
    kind, _, place = value.partition(":")
    match kind:
        case "env":
            return f"in the environment variable {place}"
        case "file":
            return f"in the file {place}"
    return f"of {setting}"


def _named_reason(body: bytes) -> tuple[str | None, str | None]:
    """Return the provider's own code for why it refuses, and the parameter that it means."""
    try:
        error = json.loads(body).get("error")
    except (ValueError, RecursionError, AttributeError):
        return None, None
    if not isinstance(error, dict):
        return None, None
    words = [error.get(name) for name in ("code", "type", "status")]
    code = next((word for word in words if isinstance(word, str)), None)
    about = error.get("param")
    return code, about if isinstance(about, str) else None


def _reason(body: bytes) -> str:
    """Return the provider's error message, without control characters and shortened."""
    try:
        reason = json.loads(body)
    except (ValueError, RecursionError):
        reason = None
    while isinstance(reason, dict):
        reason = reason.get("error") or reason.get("message") or reason.get("detail") or ""
    words = reason if isinstance(reason, str) and reason else body[:_REASON_CHARS].decode("utf-8", "replace")
    printable = "".join(c if c.isprintable() else " " for c in words)
    return " ".join(printable.split())[:_REASON_CHARS] or "no reason given"


def told_price(told: str | None, model: str) -> Price | None:
    """Return the user's price of a model: `1/4` for all, `small=0.1/0.4,large=2/8` for some."""
    prices = dict(_parts(told)) if told else {}
    return prices.get(model, prices.get(""))


def known_price(url: str, model: str) -> Price | None:
    """Return the listed price of a provider for a model, if known; other servers with its API have their own."""
    target = parse(url)
    listed = _table().get(target.host, {}) if target.origin.startswith("https://") else {}
    found = listed.get(model) or listed.get(_DAY.sub("", model))
    return Price(*found) if found else None


def _parts(told: str) -> list[tuple[str, Price]]:
    made = []
    for part in filter(None, map(str.strip, told.split(","))):
        name, _, figures = part.rpartition("=")
        sent, _, received = figures.partition("/")
        made.append((name.strip(), Price(float(sent), float(received or sent))))
    return made


@cache
def _table() -> Mapping[str, Mapping[str, tuple[float, float]]]:
    """By host and name; read when a price is first wanted."""
    text = (files("rowen.enrich") / "data" / "prices.json").read_text("utf-8")
    hosts: Mapping[str, Mapping[str, tuple[float, float]]] = json.loads(text)["hosts"]
    return hosts


def gemini_model(given: str) -> str:
    """Return the name of a model without `models/`; refuse what could lead to another path of the API."""
    name = given.removeprefix("models/")
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{given[:200]!r} is not the name of a Gemini model. Nothing was sent.",
            hint="A name has letters, digits, dots, hyphens and underscores, such as gemini-2.5-flash-lite.",
        )
    return name
