"""What embedders over HTTP have in common: one POST of JSON, and what its answer means."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from rowen.enrich.base import Tools
from rowen.errors import BadVectorsError, EmbedderDownError, EmbeddingError, TextsRefusedError
from rowen.fetch.credentials import Credentials
from rowen.fetch.target import parse
from rowen.settings import Settings

__all__ = ["Key", "Wire"]

_TOLD_CHARS = 300
_KEY_HINT = "ROWEN_EMBEDDER_KEY holds it, or says where it is found: env:NAME or file:PATH."
_NOT_NAMED = "No key was sent: its address is known from the database alone. Name it in ROWEN_EMBEDDER_URL as well."


class Key(NamedTuple):
    """A provider's key, and the one origin that may receive it."""

    origin: str
    credentials: Credentials | None

    @classmethod
    def of(cls, settings: Settings, *, kind: str, home: str, default: str, header: str, form: str = "{}") -> "Key":
        """The user's key for the address that his settings name, or else the usual one for the provider's own.

        The address that is called may stand in a database that others write to: it has no say in this.
        """
        meant = settings.embedder in (None, kind)
        named = (settings.embedder_url if meant else None) or home
        usual = default if parse(named).origin == parse(home).origin else None
        value = settings.embedder_key.get_secret_value() if meant and settings.embedder_key else usual
        return cls(parse(named).origin, Credentials.of(named, {header: form.format(value)} if value else {}))


class Wire:
    """One provider: where it is, who we are there."""

    def __init__(self, url: str, *, tools: Tools, key: Key) -> None:
        self.provider = parse(url).host
        self._tools = tools
        self._credentials = key.credentials
        self._is_named = key.origin == parse(url).origin

    async def post(self, url: str, question: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON object that answers; raises in the words of embedding, or `FetchError` where nobody answers."""
        client = await self._tools.client()
        response = await client.request(
            "POST",
            url,
            headers={"Content-Type": "application/json"},
            accept="application/json",
            credentials=self._credentials,
            body=json.dumps(question).encode(),
            follow=False,
        )
        if not response.ok:
            raise self._failed(response.status, response.body, response.retry_after_s or 0.0)
        try:
            answer = json.loads(response.body)
        except (ValueError, RecursionError):
            raise self.unreadable("it is not JSON") from None
        if not isinstance(answer, dict):
            raise self.unreadable("it is no object")
        return answer

    def unreadable(self, why: str) -> BadVectorsError:
        """The error for an answer that has another shape than agreed."""
        return BadVectorsError(
            f"The answer of {self.provider} cannot be read: {why}. Nothing of it was stored.",
            hint="Is ROWEN_EMBEDDER_URL the base address of its API, and not of its web page?",
        )

    def _failed(self, status: int, body: bytes, retry_in_s: float) -> EmbeddingError:
        match status:
            case 401 | 403:
                # The body is not repeated: some providers put a part of the key there.
                return EmbeddingError(
                    f"{self.provider} does not accept the key (status {status}).",
                    hint=_KEY_HINT if self._is_named else _NOT_NAMED,
                )
            case 400 | 413 | 422:
                return TextsRefusedError(f"{self.provider} refused (status {status}): {self._told(body)}")
            case 408 | 429:
                return EmbedderDownError(
                    f"{self.provider} asks to wait (status {status}).",
                    retry_in_s=retry_in_s,
                    busy=True,
                    hint="The texts keep waiting; `rowen embed` goes on where this ended.",
                )
            case _ if status >= 500:
                return EmbedderDownError(
                    f"{self.provider} failed (status {status}).",
                    retry_in_s=retry_in_s,
                    hint="The texts keep waiting; `rowen embed` goes on where this ended.",
                )
        return EmbeddingError(
            f"{self.provider} answered with status {status}: {self._told(body)}",
            hint="Check ROWEN_EMBEDDER_URL and ROWEN_EMBEDDER_MODEL.",
        )

    def _told(self, body: bytes) -> str:
        """What the provider says is wrong, without control characters, and never long."""
        try:
            told = json.loads(body)
        except (ValueError, RecursionError):
            told = None
        while isinstance(told, dict):
            told = told.get("error") or told.get("message") or told.get("detail") or ""
        words = told if isinstance(told, str) and told else body[:_TOLD_CHARS].decode("utf-8", "replace")
        return (
            " ".join("".join(c if c.isprintable() else " " for c in words).split())[:_TOLD_CHARS] or "no reason given"
        )
