"""What embedders over HTTP have in common: a provider, and what its failures mean for texts and for settings."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rowen.enrich.base import WAITING, EmbedderTools
from rowen.enrich.prices import known_price
from rowen.enrich.provider import Key, PaidCall, Provider
from rowen.errors import (
    BadVectorsError,
    BudgetExceededError,
    ConfigurationError,
    EmbedderDownError,
    EmbeddingError,
    ProviderAnswerError,
    ProviderDownError,
    ProviderError,
    ProviderKeyError,
    ProviderRefusedError,
    TextsRefusedError,
)
from rowen.model.models import Price, TokenUsage
from rowen.net.target import parse, redact
from rowen.settings import Settings

__all__ = ["RemoteModel", "base_url", "embedder_key", "embedder_price", "guessed_tokens"]

_KEY_HINT = "ROWEN_EMBEDDER_KEY holds it, or says where it is found: env:NAME or file:PATH."
_NOT_NAMED = "No key was sent: its address is known from the database alone. Name it in ROWEN_EMBEDDER_URL as well."
# English has about four characters a token; used only where a provider does not count, and before it has.
_CHARS_PER_TOKEN = 4


def base_url(given: str | None, home: str) -> str:
    """The address of an API as it is stored, which may not hold a password."""
    url = (given or home).rstrip("/")
    if parse(url).login:
        raise ConfigurationError(
            f"{redact(url)} contains a password, which would be stored in clear.",
            hint="Leave it out, and name where the key is found in ROWEN_EMBEDDER_KEY.",
        )
    return url


def embedder_key(settings: Settings, *, kind: str, home: str, default: str, header: str, form: str = "{}") -> Key:
    """The user's key for the address that his settings name, or else the usual one for the provider's own.

    The address that is called may stand in a database that others write to: it has no say in this.
    """
    meant = settings.embedder in (None, kind)
    named = (settings.embedder_url if meant else None) or home
    usual = default if parse(named).origin == parse(home).origin else None
    value = settings.embedder_key.get_secret_value() if meant and settings.embedder_key else usual
    return Key.for_address(named, value, header=header, form=form, setting="ROWEN_EMBEDDER_KEY")


def embedder_price(settings: Settings, url: str, model: str) -> float | None:
    """What a million tokens cost: as the user says, or as the provider lists it."""
    if settings.embedder_price is not None:
        return settings.embedder_price
    found = known_price(url, model)
    return None if found is None else found.sent_usd


def guessed_tokens(texts: Sequence[str]) -> int:
    """About how many tokens texts are."""
    return sum(len(text) // _CHARS_PER_TOKEN + 1 for text in texts)


class RemoteModel:
    """One model of a provider; every failure is told in the words of embedding."""

    def __init__(self, url: str, model: str, *, tools: EmbedderTools, key: Key, price: float | None) -> None:
        self._model = model
        self._price = None if price is None else Price(price)
        self._provider = Provider(url, key=key, client=tools.client, settings=tools.settings, ledger=tools.ledger)

    async def post(
        self,
        url: str,
        question: Mapping[str, Any],
        texts: Sequence[str],
        usage: Callable[[dict[str, Any]], TokenUsage | None] = lambda _: None,
    ) -> dict[str, Any]:
        """The JSON object that answers for texts; raises an `EmbeddingError` where there is none to be had."""
        call = PaidCall(
            purpose="embed",
            model=self._model,
            inputs=len(texts),
            expected=TokenUsage(guessed_tokens(texts)),
            price=self._price,
            usage=usage,
        )
        try:
            return await self._provider.post(url, question, call)
        except ProviderError as problem:
            # Whoever waits for an open circuit looks for it in the cause.
            raise self._in_words_of_embedding(problem) from problem.__cause__ or problem

    def unreadable(self, why: str) -> BadVectorsError:
        """The error for an answer that has another shape than agreed."""
        return self._unreadable(self._provider.unreadable(why))

    async def close(self) -> None:
        """Wait until every attempt is recorded."""
        await self._provider.close()

    def _unreadable(self, problem: ProviderAnswerError) -> BadVectorsError:
        return BadVectorsError(
            f"{problem} Nothing of it was stored.",
            hint="Is ROWEN_EMBEDDER_URL the base address of its API, and not of its web page?",
        )

    def _in_words_of_embedding(self, problem: ProviderError) -> EmbeddingError:
        told = str(problem)
        match problem:
            case ProviderAnswerError():
                return self._unreadable(problem)
            case ProviderKeyError():
                return EmbeddingError(told, hint=_KEY_HINT if self._provider.is_named else _NOT_NAMED)
            case ProviderRefusedError():
                return TextsRefusedError(told)
            case ProviderDownError():
                hint = problem.hint or WAITING
                return EmbedderDownError(told, retry_in_s=problem.retry_in_s, busy=problem.busy, hint=hint)
            case BudgetExceededError(scope="price"):
                return EmbeddingError(told, hint="ROWEN_EMBEDDER_PRICE tells it; 0 for a server of your own.")
            case BudgetExceededError():
                hint = "The texts keep waiting. ROWEN_BUDGET_RUN_USD, _SOURCE_USD and _DAY_USD set the budgets."
                return EmbeddingError(told, hint=hint)
        return EmbeddingError(told, hint=problem.hint or "Check ROWEN_EMBEDDER_URL and ROWEN_EMBEDDER_MODEL.")
