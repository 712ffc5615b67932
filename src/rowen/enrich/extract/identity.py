"""What an answer is an answer to: the same key means the same question, and that is never paid for twice."""

import hashlib

from rowen.enrich.extract.prompt import PROMPT_VERSION, PageText
from rowen.enrich.llm.base import ModelSpec
from rowen.model.hashes import Hash, canonical_json
from rowen.model.schemas import Schema

__all__ = ["CLEANER_VERSION", "answer_key"]

CLEANER_VERSION = 1
"""Raised when the same stored text would be put before a model in another form."""


def answer_key(
    page: PageText, schema: Schema, model: ModelSpec, *, context_tokens: int, instructions: str = ""
) -> Hash:
    """The key of an answer: exact text, schema, who is asked and where, prompt and cleaner, and where a page is cut.

    What a user adds to the prompt is a part of it; nothing added is as it always was.
    """
    text = hashlib.sha256(page.told.encode("utf-8", "surrogatepass")).hexdigest()
    told = [
        text,
        schema.hash.hex(),
        *model,
        PROMPT_VERSION,
        CLEANER_VERSION,
        context_tokens,
        *([instructions] if instructions else []),
    ]
    return hashlib.sha256(canonical_json(told)).digest()
