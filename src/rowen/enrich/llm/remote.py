"""Language models over HTTP: OpenAI, Anthropic, Gemini and Ollama.

Servers support schemas to a different extent, and reject unsupported requests. So each model has a list of request
formats (the ladder), the strictest first, and remembers the first format that the server accepted.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from rowen.enrich.llm.base import Finish, Message, ModelQuestion, ModelReply, ModelSpec, ModelTools
from rowen.enrich.provider import (
    GEMINI_HOME,
    Key,
    PaidCall,
    Provider,
    api_address,
    configured_price,
    gemini_model,
    known_price,
)
from rowen.enrich.schemas.derivation import lenient, strict
from rowen.errors import ConfigurationError, ContextOverflowError, ProviderRefusedError
from rowen.model.models import Price, TokenUsage, tokens
from rowen.net.target import parse, redact

# English has four characters per token, German three. An overestimate only reserves too much.
_CHARS_PER_TOKEN = 3
_OVERFLOW_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "string_above_max_length"})
# Some providers use a single code for all refusals.
_OVERFLOW_WORDS = ("prompt is too long", "context length", "context size", "maximum context", "input token count")
# Parameters without which a request has another meaning. Other parameters are left out if a server rejects them.
_ESSENTIAL = frozenset({"model", "messages", "response_format", "tools", "tool_choice", "contents", "format"})
# Constant, so that servers that support it give the same answer to the same question.
_SEED = 7


class _RemoteModel(ABC):
    """A model of a provider, with the provider's key, the price, and the ladder of request formats."""

    kind: ClassVar[str]
    home: ClassVar[str]
    default_model: ClassVar[str | None] = None
    # The reference to the usual key, the header for the key, and the format of the header.
    key: ClassVar[tuple[str, str, str]]
    headers: ClassVar[Mapping[str, str]] = {}
    rungs: ClassVar[int]

    def __init__(self, tools: ModelTools, model: str | None = None) -> None:
        settings = tools.settings
        url = api_address(settings.llm_url, self.home, key_setting="ROWEN_LLM_KEY")
        chosen = model or settings.llm_model or self._usual_model(settings.llm_url)
        if chosen is None:
            raise ConfigurationError(
                f"No model of {redact(url)} is set.", hint="Set ROWEN_LLM_MODEL to its name, such as llama3.2."
            )
        self.spec = ModelSpec(self.kind, self._checked_name(chosen), url)
        self.price = configured_price(settings.llm_price, self.spec.model) or known_price(url, self.spec.model)
        self._rung = 0
        self._answered_schemas: set[int] = set()
        self._refused_parameters: set[str] = set()
        self._limit_s = settings.llm_limit_s
        default, header, form = self.key
        usual = default if parse(url).origin == parse(self.home).origin else None
        value = settings.llm_key.get_secret_value() if settings.llm_key else usual
        self._provider = Provider(
            url,
            key=Key.for_address(url, value, header=header, form=form, setting="ROWEN_LLM_KEY"),
            client=tools.client,
            settings=settings,
            ledger=tools.ledger,
            headers=self.headers,
        )

    async def ask(self, question: ModelQuestion) -> ModelReply:
        """Return the answer; try the request formats in order, starting at the last accepted one.

        Raise `ContextOverflowError` if the text is too long.
        """
        refusal: ProviderRefusedError | None = None
        schema = hash(json.dumps(question.schema, sort_keys=True))
        for rung in range(self._rung, self.rungs):
            request = self._request(question, rung)
            if request is None:
                continue
            try:
                answer = await self._post(request, question)
            except ProviderRefusedError as problem:
                if rung == self._rung and schema in self._answered_schemas:
                    # The format was accepted for another text with this schema, so the server refuses the text.
                    raise
                # If a format is rejected, the next one is tried. If all are rejected, the first error is raised.
                refusal = refusal or problem
                continue
            if rung != self._rung:
                self._answered_schemas.clear()
            self._rung = rung
            self._answered_schemas.add(schema)
            return self._reply(answer)
        raise refusal or ProviderRefusedError(f"{self._provider.name} cannot be asked with this schema.")

    async def close(self) -> None:
        """Wait until every attempt is recorded."""
        await self._provider.close()

    def _usual_model(self, named_url: str | None) -> str | None:
        return self.default_model

    def _checked_name(self, model: str) -> str:
        return model

    @property
    @abstractmethod
    def _path(self) -> str:
        """Return the path of requests, relative to the base address."""

    @abstractmethod
    def _request(self, question: ModelQuestion, rung: int) -> dict[str, Any] | None:
        """Return the request in the format at index `rung`; None if the format cannot express the schema."""

    @abstractmethod
    def _reply(self, answer: dict[str, Any]) -> ModelReply:
        """Return the answer in a response."""

    @abstractmethod
    def _usage(self, answer: dict[str, Any]) -> TokenUsage | None:
        """Return the token counts of the provider; None if the answer has none."""

    async def _post(self, request: dict[str, Any], question: ModelQuestion) -> dict[str, Any]:
        """Send one request; optional parameters that the provider rejects are left out, now and in later requests."""
        limit_s = question.limit_s or self._limit_s
        while True:
            sent = {name: value for name, value in request.items() if name not in self._refused_parameters}
            chars = len(json.dumps(sent, ensure_ascii=False))
            call = PaidCall(
                purpose=question.purpose,
                model=self.spec.model,
                inputs=1,
                expected=TokenUsage(chars // _CHARS_PER_TOKEN + 1, question.answer_tokens),
                price=self.price,
                usage=self._usage,
                limit_s=limit_s,
                idle_s=limit_s,
            )
            try:
                return await self._provider.post(f"{self.spec.url}{self._path}", sent, call)
            except ProviderRefusedError as problem:
                message = str(problem).lower()
                if problem.reason in _OVERFLOW_CODES or any(words in message for words in _OVERFLOW_WORDS):
                    raise ContextOverflowError(
                        str(problem), hint="ROWEN_LLM_CONTEXT_TOKENS limits how much is sent at once."
                    ) from problem
                if problem.about is None or problem.about not in sent or problem.about in _ESSENTIAL:
                    raise
                self._refused_parameters.add(problem.about)


class OpenAIChat(_RemoteModel):
    """OpenAI's chat completions, which llama.cpp, vLLM, LM Studio, Ollama and many other servers implement too.

    The ladder: a strict JSON schema, a JSON schema, any JSON, plain text.
    """

    kind = "openai"
    home = "https://api.openai.com/v1"
    default_model = "gpt-4o-mini"
    key = ("env:OPENAI_API_KEY", "Authorization", "Bearer {}")
    rungs = 4
    _path = "/chat/completions"
    _STRICT, _LENIENT, _JSON = range(3)

    def _usual_model(self, named_url: str | None) -> str | None:
        return self.default_model if named_url is None else None

    def _request(self, question: ModelQuestion, rung: int) -> dict[str, Any] | None:
        is_in_prompt = rung > self._LENIENT
        messages = _with_schema(question.messages, lenient(question.schema)) if is_in_prompt else question.messages
        request: dict[str, Any] = {
            "model": self.spec.model,
            "messages": [{"role": message.role, "content": message.text} for message in messages],
            "temperature": 0,
            "seed": _SEED,
            "max_completion_tokens" if self.spec.url == self.home else "max_tokens": question.answer_tokens,
        }
        if not is_in_prompt:
            schema = strict(question.schema) if rung == self._STRICT else lenient(question.schema)
            if schema is None:
                return None
            form = {"name": question.name, "strict": rung == self._STRICT, "schema": schema}
            request["response_format"] = {"type": "json_schema", "json_schema": form}
        elif rung == self._JSON:
            request["response_format"] = {"type": "json_object"}
        return request

    def _reply(self, answer: dict[str, Any]) -> ModelReply:
        choices = answer.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(choice, dict) or not isinstance(message, dict):
            raise self._provider.unreadable("it has no message")
        usage = self._usage(answer) or TokenUsage()
        # Check the length first: a truncated answer may have no content at all.
        if choice.get("finish_reason") == "length":
            return ModelReply(_text_of(message.get("content")), "length", usage)
        if message.get("refusal") or choice.get("finish_reason") == "content_filter":
            return ModelReply(_text_of(message.get("refusal")) or "it was filtered", "refused", usage)
        return ModelReply(_text_of(message.get("content")), "done", usage)

    def _usage(self, answer: dict[str, Any]) -> TokenUsage | None:
        usage = answer.get("usage")
        return _counted(usage, "prompt_tokens", "completion_tokens") if isinstance(usage, dict) else None


class Anthropic(_RemoteModel):
    """Anthropic's Messages API.

    The ladder: structured output, then a tool that the model must call. All models support the tool.
    """

    kind = "anthropic"
    home = "https://api.anthropic.com/v1"
    default_model = "claude-haiku-4-5"
    key = ("env:ANTHROPIC_API_KEY", "x-api-key", "{}")
    headers: ClassVar = {"anthropic-version": "2023-06-01"}
    rungs = 2
    _path = "/messages"
    _ENDS: ClassVar[Mapping[str, Finish]] = {
        "max_tokens": "length",
        "refusal": "refused",
        "model_context_window_exceeded": "length",
    }

    def _request(self, question: ModelQuestion, rung: int) -> dict[str, Any] | None:
        schema = strict(question.schema)
        request: dict[str, Any] = {
            "model": self.spec.model,
            "max_tokens": question.answer_tokens,
            "temperature": 0,
            "system": "\n\n".join(message.text for message in question.messages if message.role == "system"),
            "messages": [{"role": m.role, "content": m.text} for m in question.messages if m.role != "system"],
        }
        if rung == 0:
            form = {"type": "json_schema", "schema": schema}
            return None if schema is None else {**request, "output_config": {"format": form}}
        tool = {"name": question.name, "description": "The facts.", "input_schema": schema or lenient(question.schema)}
        return {**request, "tools": [tool], "tool_choice": {"type": "tool", "name": question.name}}

    def _reply(self, answer: dict[str, Any]) -> ModelReply:
        blocks = answer.get("content")
        if not isinstance(blocks, list):
            raise self._provider.unreadable("it has no content")
        text = ""
        for block in blocks:
            match block:
                case {"type": "tool_use"}:
                    text += json.dumps(block.get("input"), ensure_ascii=False)
                case {"type": "text"}:
                    text += str(block.get("text") or "")
        finish = self._ENDS.get(str(answer.get("stop_reason")), "done")
        return ModelReply(text, finish, self._usage(answer) or TokenUsage())

    def _usage(self, answer: dict[str, Any]) -> TokenUsage | None:
        usage = answer.get("usage")
        if not isinstance(usage, dict):
            return None
        sent = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        numbers = [sum(tokens(usage.get(name)) for name in sent), tokens(usage.get("output_tokens"))]
        return TokenUsage(*numbers) if any(numbers) else None


class GeminiChat(_RemoteModel):
    """Google's Gemini API for text. The ladder: a JSON schema, then any JSON."""

    kind = "gemini"
    home = GEMINI_HOME
    default_model = "gemini-2.5-flash-lite"
    key = ("env:GEMINI_API_KEY", "x-goog-api-key", "{}")
    rungs = 2
    _ENDS: ClassVar[Mapping[str, Finish]] = {
        "STOP": "done",
        "MAX_TOKENS": "length",
        "FINISH_REASON_UNSPECIFIED": "done",
    }

    def _checked_name(self, model: str) -> str:
        return gemini_model(model)

    @property
    def _path(self) -> str:
        return f"/models/{self.spec.model}:generateContent"

    def _request(self, question: ModelQuestion, rung: int) -> dict[str, Any]:
        schema = lenient(question.schema)
        messages = _with_schema(question.messages, schema) if rung else question.messages
        roles = {"user": "user", "assistant": "model"}
        form: dict[str, Any] = {
            "temperature": 0,
            "maxOutputTokens": question.answer_tokens,
            "responseMimeType": "application/json",
        }
        return {
            "systemInstruction": {"parts": [{"text": m.text} for m in messages if m.role == "system"]},
            "contents": [{"role": roles[m.role], "parts": [{"text": m.text}]} for m in messages if m.role != "system"],
            "generationConfig": form if rung else {**form, "responseJsonSchema": schema},
        }

    def _reply(self, answer: dict[str, Any]) -> ModelReply:
        usage = self._usage(answer) or TokenUsage()
        candidates = answer.get("candidates")
        if not isinstance(candidates, list) or not candidates or not isinstance(candidates[0], dict):
            # A blocked prompt has no candidates at all.
            feedback = answer.get("promptFeedback")
            reason = feedback.get("blockReason") if isinstance(feedback, dict) else None
            if reason is None:
                raise self._provider.unreadable("it has no candidates")
            return ModelReply(str(reason), "refused", usage)
        content = candidates[0].get("content")
        parts = content.get("parts") if isinstance(content, dict) else None
        text = "".join(str(p.get("text") or "") for p in parts or () if isinstance(p, dict) and not p.get("thought"))
        reason = str(candidates[0].get("finishReason") or "STOP")
        finish = self._ENDS.get(reason, "refused")
        return ModelReply(text or reason if finish == "refused" else text, finish, usage)

    def _usage(self, answer: dict[str, Any]) -> TokenUsage | None:
        usage = answer.get("usageMetadata")
        if not isinstance(usage, dict):
            return None
        received = tokens(usage.get("candidatesTokenCount")) + tokens(usage.get("thoughtsTokenCount"))
        numbers = [tokens(usage.get("promptTokenCount")), received]
        return TokenUsage(*numbers) if any(numbers) else None


class Ollama(_RemoteModel):
    """Ollama's own API, which enforces schemas more reliably than its OpenAI-compatible API; it is free of charge."""

    kind = "ollama"
    home = "http://127.0.0.1:11434"
    key = ("", "Authorization", "Bearer {}")
    rungs = 1
    _path = "/api/chat"
    # Ollama truncates a prompt silently to the context size of the request, which is 4,096 tokens by default.
    _SPARE_TOKENS = 512

    def __init__(self, tools: ModelTools, model: str | None = None) -> None:
        super().__init__(tools, model)
        self.price = self.price or Price(0.0)

    def _request(self, question: ModelQuestion, rung: int) -> dict[str, Any]:
        schema = lenient(question.schema)
        # The prompt contains the schema too: with the grammar alone, a model returns empty objects.
        messages = _with_schema(question.messages, schema)
        sent = sum(len(message.text) for message in messages) // _CHARS_PER_TOKEN
        context = sent + question.answer_tokens + self._SPARE_TOKENS
        return {
            "model": self.spec.model,
            "messages": [{"role": message.role, "content": message.text} for message in messages],
            "stream": False,
            "format": schema,
            "options": {"temperature": 0, "seed": _SEED, "num_predict": question.answer_tokens, "num_ctx": context},
        }

    def _reply(self, answer: dict[str, Any]) -> ModelReply:
        message = answer.get("message")
        if not isinstance(message, dict):
            raise self._provider.unreadable("it has no message")
        finish: Finish = "length" if answer.get("done_reason") == "length" else "done"
        return ModelReply(str(message.get("content") or ""), finish, self._usage(answer) or TokenUsage())

    def _usage(self, answer: dict[str, Any]) -> TokenUsage | None:
        return _counted(answer, "prompt_eval_count", "eval_count")


def _counted(usage: Mapping[str, Any], sent: str, received: str) -> TokenUsage | None:
    """Return the two counts as token usage; None if both are 0."""
    numbers = [tokens(usage.get(name)) for name in (sent, received)]
    return TokenUsage(*numbers) if any(numbers) else None


def _with_schema(messages: Sequence[Message], schema: Mapping[str, Any]) -> list[Message]:
    """Add the schema to the system message, for request formats that do not enforce the schema."""
    addition = f"\n\nThe JSON Schema of your answer:\n{json.dumps(schema, ensure_ascii=False)}"
    return [
        Message(message.role, message.text + addition) if message.role == "system" else message for message in messages
    ]


def _text_of(content: Any) -> str:
    """Return the text of a message, whose content may consist of parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""
