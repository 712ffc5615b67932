"""Search: by words and meaning, with all filters; and what is like an item."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from rowen.interfaces.rest.access import Service
from rowen.interfaces.rest.answers import After, Limit, next_address, told, validated
from rowen.interfaces.rest.examples import example
from rowen.interfaces.rest.items import MARKDOWN, Link, WhichSource, prefers_markdown
from rowen.interfaces.rest.narrowing import Narrowed
from rowen.interfaces.rest.shapes import shape
from rowen.model.search import Answer
from rowen.operations.facts import fact
from rowen.operations.markdown import markdown

__all__ = ["router"]

router = APIRouter(tags=["search"])

# As the command line has it: some 2,000 tokens of passages for a model.
MARKDOWN_BUDGET = 6_000

Sources = Annotated[tuple[str, ...], Query(description="only in these sources")]
Budget = Annotated[int | None, Query(ge=200, le=1_000_000, description="passages of so many characters in all")]
Explain = Annotated[bool, Query(description="say how the ranking came about")]

_ANSWER = example("Answer")
_ANSWER["content"]["text/markdown"] = {"example": "## [1] Haymaking\n<https://docs.example.org/guide/haymaking>"}


@router.get("/search", response_model=shape("Answer"), responses={200: _ANSWER})
async def search_items(
    request: Request,
    rowen: Service,
    narrowed: Narrowed,
    q: Annotated[str, Query(max_length=1000, description='words; "phrases" must stand there, -words must not')],
    source: Sources = (),
    version: Annotated[str | None, Query(description="this version of packages: `2.x`, `>=1.0,<2`")] = None,
    limit: Limit = 10,
    after: After = None,
    budget: Budget = None,
    meaning: Annotated[bool, Query(description="false: by words alone")] = True,
    explain: Explain = False,
) -> Response:
    """The items that answer best, by words and by meaning, each with its best passages.

    As Markdown, if `Accept` prefers it, for models: quoted, with links to cite by.
    """
    budget = budget or (MARKDOWN_BUDGET if prefers_markdown(request.headers.get("accept")) else None)
    answer = await rowen.search(
        *(q,), sources=source, version=version, limit=limit, after=after, budget=budget, meaning=meaning, **narrowed
    )
    return _told(request, answer, explain=explain)


@router.get("/search/similar", response_model=shape("Answer"), responses={200: _ANSWER})
async def similar_items(
    request: Request,
    rowen: Service,
    narrowed: Narrowed,
    url: Link,
    of: WhichSource = None,
    source: Sources = (),
    limit: Limit = 10,
    budget: Budget = None,
    explain: Explain = False,
) -> Response:
    """The items that are most like one that is held."""
    answer = await rowen.items.similar(url, source=of, sources=source, limit=limit, budget=budget, **narrowed)
    return _told(request, answer, explain=explain)


def _told(request: Request, answer: Answer, *, explain: bool) -> Response:
    if prefers_markdown(request.headers.get("accept")):
        return validated(request, markdown(answer).encode("utf-8", "replace"), MARKDOWN)
    facts = {
        "items": [fact(hit) for hit in answer],
        "corrections": dict(answer.corrections),
        "notes": list(answer.notes),
        # Times differ with each look, and an answer with them would never be the same.
        "explanation": dict(answer.explanation) if explain else None,
        "next": answer.next,
    }
    headers = {"Link": f'<{next_address(request, answer.next)}>; rel="next"'} if answer.next else {}
    return told(request, facts, headers=headers)
