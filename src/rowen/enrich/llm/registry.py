"""Which wire formats of language models there are."""

from importlib import import_module

from rowen.enrich.llm.base import LanguageModel, ModelTools
from rowen.errors import ConfigurationError

__all__ = ["KINDS", "make"]

KINDS = {
    "anthropic": "rowen.enrich.llm.anthropic:Anthropic",
    "gemini": "rowen.enrich.llm.gemini:GeminiChat",
    "ollama": "rowen.enrich.llm.ollama:Ollama",
    "openai": "rowen.enrich.llm.openai:OpenAIChat",
}


def make(tools: ModelTools, *, model: str | None = None) -> LanguageModel:
    """The model that the settings name, or another one at the same address."""
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
