"""A language model on loopback: it speaks four wire formats, holds them to their rules, and can misbehave in every way.

It reads pages by rule: a field's value is what follows its name and a colon on a line of the page. So what it answers
is known, and each call is counted.
"""

import asyncio
import json
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from tests.enrich.strictness import strict_problems
from tests.portals.site import Site

FENCE = re.compile(r"<(page-[0-9a-f]{32})>\n(.*)\n</\1>", re.DOTALL)


@dataclass
class AskedModel:
    """One question as it came in."""

    form: str
    body: dict[str, Any]
    key: str | None
    system: str
    prompt: str
    schema: dict[str, Any] | None

    @property
    def page(self) -> str:
        """What stands between the marks of the first message."""
        found = FENCE.search(self.prompt)
        return found[2] if found else ""


@dataclass
class Said:
    """What the double is about to say, before it is put into a wire format."""

    text: str | None
    finish: str = "stop"
    refusal: str | None = None
    usage: tuple[int, int] | None = None


Mood = Callable[[AskedModel, Said], "Said | web.StreamResponse"]


class Model(Site):
    """Each question takes the next mood, then it behaves again."""

    def __init__(self, kind: str = "openai") -> None:
        super().__init__()
        self.kind = kind
        self.questions: list[AskedModel] = []
        self.moods: deque[Mood] = deque()
        self.always: Mood | None = None
        self.latency_s = 0.0
        self.context_tokens = 1_000_000
        self.unsupported: set[str] = set()

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that lead here."""
        base = {"openai": "/v1", "anthropic": "/v1", "gemini": "/v1beta", "ollama": ""}[self.kind]
        return {"llm": self.kind, "llm_url": f"{self.url}{base}", "llm_model": "double", "llm_price": "1/4"}

    @property
    def environment(self) -> dict[str, str]:
        """The same as variables."""
        return {f"ROWEN_{name.upper()}": value for name, value in self.settings.items()}

    @property
    def calls(self) -> int:
        """How many questions were put, whatever became of them."""
        return len(self.questions)

    async def _answer_for(self, request: web.Request) -> web.StreamResponse:
        asked = _understood(request, await request.json())
        self.questions.append(asked)
        if self.latency_s:
            await asyncio.sleep(self.latency_s)
        if self.down:
            return web.Response(status=503, text="Down for maintenance.")
        if (refused := self._refusal(asked)) is not None:
            return refused
        said = Said(json.dumps(read(asked)), usage=(len(asked.system + asked.prompt) // 4, 50))
        mood = self.moods.popleft() if self.moods else self.always
        told = mood(asked, said) if mood else said
        return told if isinstance(told, web.StreamResponse) else _written(asked, told)

    def _refusal(self, asked: AskedModel) -> web.Response | None:
        """What the real ones refuse with status 400."""
        tokens = len(asked.system + asked.prompt) // 4
        if tokens > self.context_tokens:
            return _error("exceed_context_size_error", f"{tokens} tokens are more than {self.context_tokens}")
        for name in sorted(self.unsupported & asked.body.keys()):
            return _error("unsupported_parameter", f"{name} is not supported", param=name)
        form = asked.body.get("response_format") or {}
        if form.get("type") in self.unsupported:
            return _error("invalid_request_error", f"response_format {form['type']} is not supported")
        strict = form.get("json_schema", {}).get("strict") or "output_config" in asked.body
        if strict and (problems := strict_problems(asked.schema or {})):
            return _error("invalid_json_schema", problems[0], param="response_format")
        if asked.form == "gemini" and "$schema" in (asked.schema or {}):
            return _error("INVALID_ARGUMENT", 'Unknown name "$schema"')
        return None


def _understood(request: web.Request, body: dict[str, Any]) -> AskedModel:
    key = request.headers.get("Authorization") or request.headers.get("x-api-key")
    key = key or request.headers.get("x-goog-api-key")
    if request.path.endswith(":generateContent"):
        system = body["systemInstruction"]["parts"][0]["text"]
        prompt = "\n".join(part["text"] for one in body["contents"] for part in one["parts"])
        return AskedModel("gemini", body, key, system, prompt, body["generationConfig"].get("responseJsonSchema"))
    messages = body["messages"]
    prompt = "\n".join(one["content"] for one in messages if one["role"] != "system")
    if request.path == "/v1/messages":
        assert request.headers["anthropic-version"]
        tool = (body.get("tools") or [{}])[0].get("input_schema")
        schema = body.get("output_config", {}).get("format", {}).get("schema") or tool
        return AskedModel("anthropic", body, key, body["system"], prompt, schema)
    system = "\n".join(one["content"] for one in messages if one["role"] == "system")
    if request.path == "/api/chat":
        return AskedModel("ollama", body, key, system, prompt, body["format"])
    assert request.path == "/v1/chat/completions", request.path
    schema = (body.get("response_format") or {}).get("json_schema", {}).get("schema")
    return AskedModel("openai", body, key, system, prompt, schema)


def read(asked: AskedModel) -> dict[str, Any]:
    """What the page says, by rule."""
    schema = asked.schema or json.loads(asked.system.rpartition("The JSON Schema of your answer:\n")[2])
    return {name: _value(name, node, asked.page) for name, node in schema["properties"].items()}


def _value(name: str, node: dict[str, Any], page: str) -> Any:
    kinds = node.get("type") or [kind for one in node.get("anyOf", []) for kind in [one.get("type")]]
    found = re.findall(rf"(?im)^[\W_]*{re.escape(name)}[\W_]*: *(.+?) *$", page)
    if "array" in kinds:
        return [one for line in found for one in re.split(r", *", line)]
    if not found:
        return None
    if "number" in kinds or "integer" in kinds:
        number = re.search(r"\d+(?:\.\d+)?", found[0])
        return float(number[0]) if number else None
    return found[0]


def _error(code: str, message: str, **more: str) -> web.Response:
    told = {"code": code, "type": code, "status": code, "message": message, **more}
    return web.json_response({"error": told}, status=400)


def _written(asked: AskedModel, said: Said) -> web.Response:
    sent, received = said.usage or (0, 0)
    match asked.form:
        case "openai":
            message = {"role": "assistant", "content": said.text, "refusal": said.refusal}
            told: dict[str, Any] = {"choices": [{"message": message, "finish_reason": said.finish}]}
            told |= {"usage": {"prompt_tokens": sent, "completion_tokens": received}} if said.usage else {}
        case "anthropic":
            ends = {"stop": "end_turn", "length": "max_tokens"}
            block: dict[str, Any] = {"type": "text", "text": said.refusal or said.text}
            if "tools" in asked.body and said.text is not None:
                block = {"type": "tool_use", "name": "facts", "input": _object(said.text)}
            told = {"content": [block], "stop_reason": "refusal" if said.refusal else ends[said.finish]}
            told |= {"usage": {"input_tokens": sent, "output_tokens": received}}
        case "gemini":
            ends = {"stop": "STOP", "length": "MAX_TOKENS"}
            content = {"parts": [{"text": said.text}] if said.text else [], "role": "model"}
            reason = "SAFETY" if said.refusal else ends[said.finish]
            told = {"candidates": [{"content": content, "finishReason": reason}]}
            told |= {"usageMetadata": {"promptTokenCount": sent, "candidatesTokenCount": received}}
        case _:
            told = {"message": {"content": said.text or ""}, "done_reason": said.finish}
            told |= {"prompt_eval_count": sent, "eval_count": received}
    return web.json_response(told)


def _object(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def says(text: str | None) -> Mood:
    """Answer with exactly this text."""
    return lambda asked, said: Said(text, usage=said.usage)


def fenced() -> Mood:
    """Put prose and a code fence around the answer."""
    return lambda asked, said: Said(f"Here it is:\n```json\n{said.text}\n```\nAnything else?", usage=said.usage)


def cut_off(text: str | None = "```") -> Mood:
    """End in the middle."""
    return lambda asked, said: Said(text, "length", usage=said.usage)


def refusing() -> Mood:
    """Will not answer."""
    return lambda asked, said: Said(None, refusal="I cannot help with that.", usage=said.usage)


def without_usage(zero: bool = False) -> Mood:
    """Do not say what it took, or say that it took nothing."""
    return lambda asked, said: Said(said.text, usage=(0, 0) if zero else None)


def status(code: int, **headers: str) -> Mood:
    """Answer with a status, and nothing else."""
    return lambda asked, said: web.json_response({"error": {"message": f"says {code}"}}, status=code, headers=headers)
