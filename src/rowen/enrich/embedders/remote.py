"""What embedders over HTTP have in common: one POST of JSON, and what its answer means."""

import json
from collections.abc import Mapping
from typing import Any

from rowen.enrich.base import Tools
from rowen.errors import BadVectorsError, EmbedderDownError, EmbeddingError, TextsRefusedError
from rowen.fetch.credentials import Credentials

__all__ = ["Wire"]

_TOLD_CHARS = 300


class Wire:
    """One provider: where it is, who we are there."""

    def __init__(self, provider: str, *, tools: Tools, key_header: str, key_form: str, key: str | None) -> None:
        self.provider = provider
        self._tools = tools
        self._header = key_header
        self._key = None if key is None else key_form.format(key)

    async def post(self, url: str, question: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON object that answers; raises in the words of embedding, or `FetchError` where nobody answers."""
        client = await self._tools.client()
        credentials = Credentials.of(url, {self._header: self._key}) if self._key else None
        response = await client.request(
            "POST",
            url,
            headers={"Content-Type": "application/json"},
            accept="application/json",
            credentials=credentials,
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
                    hint="ROWEN_EMBEDDER_KEY holds it, or says where it is found: env:NAME or file:PATH.",
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
