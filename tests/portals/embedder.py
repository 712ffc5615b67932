"""A provider of embeddings on loopback: it writes down what it was sent, and can misbehave in every way."""

import base64
import hashlib
import struct
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from aiohttp import web

from tests.portals.site import Site

Vector = list[float]
Mood = Callable[[list[dict[str, Any]]], "web.Response | list[dict[str, Any]]"]


def vector_of(text: str, dimensions: int = 8) -> Vector:
    """The same text has the same vector, and no other text has it."""
    digest = hashlib.sha256(text.encode()).digest()
    return [digest[n % 32] / 255 - 0.4 for n in range(dimensions)]


class Provider(Site):
    """Speaks as OpenAI does, and as Gemini does. Each request takes the next mood, then it behaves again."""

    def __init__(self, *, dimensions: int = 8) -> None:
        super().__init__()
        self.base = f"{self.url}/v1"
        self.dimensions = dimensions
        self.received: list[str] = []
        self.asked_for: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.moods: deque[Mood] = deque()
        self.always: Mood | None = None
        self.poison: str | None = None
        self.encode = False

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that lead here."""
        return {"embedder": "openai", "embedder_url": self.base, "embedder_model": "double"}

    def repeated(self) -> dict[str, int]:
        """Texts that were received more than once."""
        return {text: times for text, times in Counter(self.received).items() if times > 1}

    async def _answer_for(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        gemini = request.path.endswith(":batchEmbedContents")
        self.asked_for.append(asked)
        self.keys.append(request.headers.get("x-goog-api-key") or request.headers.get("Authorization"))
        if gemini:
            texts = [one["content"]["parts"][0]["text"] for one in asked["requests"]]
        elif request.path == "/v1/embeddings":
            texts = asked["input"]
        else:
            return web.json_response({"error": {"message": "no such path"}}, status=404)
        if self.down:
            return web.Response(status=503, text="Down for maintenance.")
        if self.poison is not None and any(self.poison in text for text in texts):
            return web.json_response({"error": {"message": "this text is not welcome"}}, status=400)
        self.received += texts
        data: list[dict[str, Any]] = [
            {"object": "embedding", "index": n, "embedding": vector_of(text, asked.get("dimensions", self.dimensions))}
            for n, text in enumerate(texts)
        ]
        mood = self.moods.popleft() if self.moods else self.always
        changed = mood(data) if mood else data
        if isinstance(changed, web.Response):
            return changed
        if self.encode:
            changed = [{**one, "embedding": encoded(one["embedding"])} for one in changed]
        if gemini:
            return web.json_response({"embeddings": [{"values": one["embedding"]} for one in changed]})
        return web.json_response({"data": changed, "usage": {"total_tokens": sum(map(len, texts)) // 4}})


def encoded(vector: Vector) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def status(code: int, **headers: str) -> Mood:
    """Answer with a status, and nothing else."""
    return lambda data: web.json_response({"error": {"message": f"says {code}"}}, status=code, headers=headers)


def says(body: str) -> Mood:
    """Answer with exactly this."""
    return lambda data: web.Response(text=body, content_type="application/json")


def vectors(change: Callable[[Vector], Any]) -> Mood:
    """Answer with other vectors."""
    return lambda data: [{**one, "embedding": change(one["embedding"])} for one in data]
