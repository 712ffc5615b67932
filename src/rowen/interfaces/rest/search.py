"""Search: by words and meaning, with all filters; and items that are similar to an item."""

from typing import Annotated

from msgspec import Meta
from starlette.responses import Response

from rowen.interfaces.rest.answers import next_address, told, validated
from rowen.interfaces.rest.derived import RouteCall, RouteGroup, fact_of
from rowen.interfaces.rest.items import MARKDOWN, prefers_markdown
from rowen.interfaces.rest.shapes import example
from rowen.model.search import Answer
from rowen.operations.facts import fact
from rowen.operations.search import markdown

router = RouteGroup(tags=["search"])

# The default of the command line: about 2,000 tokens of passages for a model.
MARKDOWN_BUDGET = 6_000

_EXPLAIN = {"explain": (Annotated[bool, Meta(description="Explain the ranking.")], False)}
_HITS = example("Answer")
_HITS["content"]["text/markdown"] = {"example": "## [1] Haymaking\n<https://docs.example.org/guide/haymaking>"}
_ANSWER = fact_of("Answer")._replace(responses={200: _HITS})


@router.derive("GET /search", "items.search", answer=_ANSWER, names={"words": "q"}, adds=_EXPLAIN)
async def search_items(call: RouteCall) -> Response:
    """Return the items that answer best, by words and by meaning, each with its best passages.

    As Markdown, if `Accept` prefers it, for models: quoted, with links to cite by.
    """
    if prefers_markdown(call.request.headers.get("accept")):
        call.arguments.setdefault("budget", MARKDOWN_BUDGET)
    return _rendered(call, await call.rowen.search(**call.arguments))


@router.derive("GET /search/similar", "items.similar", answer=_ANSWER, names={"source": "of"}, adds=_EXPLAIN)
async def similar_items(call: RouteCall) -> Response:
    """Return the items that are most similar to an item of the index."""
    return _rendered(call, await call.rowen.items.similar(**call.arguments))


def _rendered(call: RouteCall, answer: Answer) -> Response:
    if prefers_markdown(call.request.headers.get("accept")):
        return validated(call.request, markdown(answer).encode("utf-8", "replace"), MARKDOWN)
    facts = {
        "items": [fact(hit) for hit in answer],
        "corrections": dict(answer.corrections),
        "notes": list(answer.notes),
        # Times differ in each response, so that two responses would never be equal.
        "explanation": dict(answer.explanation) if call.added["explain"] else None,
        "next": answer.next,
    }
    headers = {"Link": f'<{next_address(call.request, answer.next)}>; rel="next"'} if answer.next else {}
    return told(call.request, facts, headers=headers)
