"""The contract of a language model: a conversation and a schema go in, the text of an answer comes out.

A model checks nothing: whether the text is JSON, and satisfies the schema, is decided in one place for all of them.
What is sent of the schema is the model's own affair; nothing that can be called is ever offered, except for the one
function by which some providers return structured data.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias

from rowen.enrich.ledger import Ledger, NoLedger
from rowen.errors import ConfigurationError
from rowen.model.models import Price, TokenUsage
from rowen.settings import Settings

if TYPE_CHECKING:
    from rowen.net.client import Client

Role: TypeAlias = Literal["system", "user", "assistant"]
Finish: TypeAlias = Literal["done", "length", "refused"]
KINDS = {
    "anthropic": "rowen.enrich.llm.remote:Anthropic",
    "gemini": "rowen.enrich.llm.remote:GeminiChat",
    "ollama": "rowen.enrich.llm.remote:Ollama",
    "openai": "rowen.enrich.llm.remote:OpenAIChat",
}


class Message(NamedTuple):
    """One turn of a conversation."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class ModelQuestion:
    """A question: a conversation, the schema of the answer, its maximum length, and its purpose.

    `limit_s` is how long it may take, where that is not what the settings say.
    """

    messages: tuple[Message, ...]
    name: str
    schema: Mapping[str, Any]
    answer_tokens: int
    purpose: str = "extract"
    limit_s: float | None = None

    @property
    def chars(self) -> int:
        """Return the length without the schema."""
        return sum(len(message.text) for message in self.messages)


class ModelReply(NamedTuple):
    """An answer: its text, how it ended, and its cost. A refusal's text is its reason."""

    text: str
    finish: Finish
    usage: TokenUsage


class ModelSpec(NamedTuple):
    """Which model: its wire format, its name there, and the base address."""

    kind: str
    model: str
    url: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.model}"


class ModelTools(NamedTuple):
    """What the flow lends to a model: the HTTP client, opened when first asked for, settings, and the ledger."""

    client: "Callable[[], Awaitable[Client]]"
    settings: Settings
    ledger: Ledger = NoLedger()


class LanguageModel(Protocol):
    """Answers questions; `price` is None where nobody knows it."""

    kind: ClassVar[str]
    spec: ModelSpec
    price: Price | None

    def __init__(self, tools: ModelTools, model: str | None = None) -> None: ...

    async def ask(self, question: ModelQuestion) -> ModelReply:
        """One answer; raises `ContextOverflowError` for a text that is too long, and `ProviderError` for the rest."""
        ...

    async def close(self) -> None:
        """Wait until every attempt is recorded."""
        ...


def make(tools: ModelTools, *, model: str | None = None) -> LanguageModel:
    """Return the model that the settings name, or another one at the same address."""
    kind = tools.settings.llm
    if kind is None:
        raise ConfigurationError(
            "No language model is set, and this page needs one to be read.",
            hint="ROWEN_LLM names a kind: openai, anthropic, gemini, ollama; ROWEN_LLM_URL and _MODEL say which one.",
        )
    if kind not in KINDS:
        raise ConfigurationError(f"There is no language model {kind!r}.", hint=f"The kinds are: {', '.join(KINDS)}.")
    module, _, name = KINDS[kind].partition(":")
    made: LanguageModel = getattr(import_module(module), name)(tools, model)
    return made
