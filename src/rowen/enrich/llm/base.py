"""The contract of a language model, which answers a conversation with text under a schema.

Answers are validated elsewhere, in the same way for all models. No tools are offered to a model, except for the
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
    """A question to a model: a conversation, the schema of the answer, its maximum length, and its purpose.

    `limit_s` is a time limit that overrides that of the settings.
    """

    messages: tuple[Message, ...]
    name: str
    schema: Mapping[str, Any]
    answer_tokens: int
    purpose: str = "extract"
    limit_s: float | None = None

    @property
    def chars(self) -> int:
        """The number of characters, without the schema."""
        return sum(len(message.text) for message in self.messages)


class ModelReply(NamedTuple):
    """An answer of a model: its text, the reason why it ended, and its cost. The text of a refusal is its reason."""

    text: str
    finish: Finish
    usage: TokenUsage


class ModelSpec(NamedTuple):
    """The specification of a model: its API, its name, and the base address."""

    kind: str
    model: str
    url: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.model}"


class ModelTools(NamedTuple):
    """The HTTP client, which is opened at first use, the settings, and the ledger."""

    client: "Callable[[], Awaitable[Client]]"
    settings: Settings
    ledger: Ledger = NoLedger()


class LanguageModel(Protocol):
    """A language model; `price` is None if unknown."""

    kind: ClassVar[str]
    spec: ModelSpec
    price: Price | None

    def __init__(self, tools: ModelTools, model: str | None = None) -> None: ...

    async def ask(self, question: ModelQuestion) -> ModelReply:
        """Return an answer; raise `ContextOverflowError` if the text is too long, or another `ProviderError`."""
        ...

    async def close(self) -> None:
        """Wait until every attempt is recorded."""
        ...


def make(tools: ModelTools, *, model: str | None = None) -> LanguageModel:
    """Return the configured model; `model` selects another model at the same address."""
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
