"""Errors as RFC 9457 problems, with the message, code and status of Rowen's errors."""

from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from rowen.errors import (
    Action,
    FetchTimeoutError,
    Hint,
    NotFoundError,
    RefusedError,
    RowenError,
    SourceError,
    UsageError,
)
from rowen.interfaces.rest.answers import encoded

MEDIA_TYPE_PROBLEM = "application/problem+json"

_NOWHERE = "The page at / leads to all others; /api/docs lists what programs can ask for."

# Actions that are a single HTTP request; other actions are shown as commands.
_REQUESTS = {
    "cancel": "POST /api/v1/runs/{}/cancel",
    "held": "GET /api/v1/sources/{}/held",
    "pause": "POST /api/v1/sources/{}/pause",
    "resume": "POST /api/v1/sources/{}/resume",
    "saved": "GET /api/v1/saved-searches",
    "schema list": "GET /api/v1/schemas",
    "search": "GET /api/v1/search",
    "sources": "GET /api/v1/sources",
    "status": "GET /api/v1/health",
    "sync": "POST /api/v1/sources/{}/sync",
    "token list": "GET /api/v1/tokens",
    "webhooks": "GET /api/v1/webhooks",
}


class ProblemDetails(BaseModel):
    """An error in the form of RFC 9457, with the actions that a program can take."""

    model_config = ConfigDict(json_schema_extra={"additionalProperties": True})

    type: str = Field(description="Kind of problem as a URN; the same for the same code.")
    title: str = Field(description="Kind of problem in words.")
    status: int = Field(description="HTTP status.")
    detail: str = Field(description="What happened, to what, and what was left untouched.")
    code: str = Field(description="Name of the error, which stays the same.", examples=["not_found"])
    hint: str | None = Field(default=None, description="What to do next.")
    actions: list[dict[str, Any]] = Field(default=[], description="The same as values.")
    retryable: bool = Field(default=False, description="Whether trying again can help.")
    errors: list[dict[str, Any]] | None = Field(default=None, description="Parts of the request that are wrong.")


def problem_of(problem: RowenError) -> dict[str, Any]:
    """Return an error as a problem."""
    values = problem.to_json()
    hint = problem.hint.worded(_request) if isinstance(problem.hint, Hint) else problem.hint
    return {
        "type": f"urn:rowen:problem:{problem.code}",
        "title": (type(problem).__doc__ or "").partition("\n")[0].partition(";")[0].rstrip("."),
        "status": problem.http_status,
        "detail": values["error"],
        "code": problem.code,
        "hint": hint,
        "actions": values["actions"],
        "retryable": problem.retryable,
    }


def _request(action: Action) -> str:
    form = _REQUESTS.get(action.name)
    if form is None or ("{}" in form and not action.target):
        return f"`{action.command}`"
    return f"`{form.format(quote(action.target or '', safe=''))}`"


def described(kind: type[RowenError]) -> dict[str, Any]:
    """Return the description of an error class for the OpenAPI document."""
    example = problem_of(kind())
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": example["title"], "content": {MEDIA_TYPE_PROBLEM: {"schema": schema, "example": example}}}


def failing(*kinds: type[RowenError]) -> dict[int | str, dict[str, Any]]:
    """Return the errors that single routes add to the common errors, as a part of `responses`."""
    return {kind.http_status: described(kind) for kind in kinds}


ELSEWHERE = failing(SourceError, FetchTimeoutError)
"""The additional errors of routes that send requests to other servers."""


def response_of(problem: RowenError, **more: Any) -> Response:
    """Return the response to a failed request."""
    values = problem_of(problem) | more
    headers = {"Cache-Control": "no-store"}
    if values["status"] == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="rowen"'
    if wait_s := getattr(problem, "retry_in_s", None):
        headers["Retry-After"] = str(max(1, round(wait_s)))
    return Response(encoded(values), values["status"], headers, MEDIA_TYPE_PROBLEM)


def install(app: FastAPI) -> None:
    """Make an application answer every error with a problem."""
    app.add_exception_handler(RowenError, _rowen_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _bug)


async def _rowen_error(_: Request, problem: Exception) -> Response:
    assert isinstance(problem, RowenError)  # noqa: S101 (what it was registered for)
    return response_of(problem)


async def _invalid(_: Request, problem: Exception) -> Response:
    assert isinstance(problem, RequestValidationError)  # noqa: S101 (what it was registered for)
    wrong = [{"where": ".".join(map(str, error["loc"])), "what": error["msg"]} for error in problem.errors()]
    first = f"{wrong[0]['where']}: {wrong[0]['what']}" if wrong else "it cannot be read"
    error = UsageError(f"The request is wrong: {first}. Nothing was done.", hint="/api/docs shows what is expected.")
    return response_of(error, errors=wrong)


class _MethodError(UsageError):
    """There is something here, but it cannot be done to it."""

    http_status = 405


async def _http_error(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)  # noqa: S101 (what it was registered for)
    match problem.status_code:
        case 404:
            error: RowenError = NotFoundError(f"There is nothing at {request.url.path}.", hint=_NOWHERE)
        case 405:
            error = _MethodError(f"{request.method} is not for {request.url.path}.", hint="/api/docs lists what is.")
        case 400:
            error = UsageError(f"The request cannot be read: {problem.detail}.")
        case _:
            error = RefusedError(str(problem.detail))
    response = response_of(error, status=problem.status_code)
    response.headers.update(problem.headers or {})
    return response


async def _bug(_: Request, problem: Exception) -> Response:
    """Answer an unexpected error. The message is only logged, since it may contain anything."""
    return response_of(
        RowenError("Something unexpected happened. What was committed is kept.", hint="The server's log has more.")
    )
