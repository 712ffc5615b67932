"""Requests drawn by schemathesis from the OpenAPI document, asked in this process, and their answers judged by it."""

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import jsonschema_rs
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import APIOperation, Case, CheckContext, GenerationMode, Response
from schemathesis.specs.openapi.adapter.parameters import OpenApiParameter
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from rowen.model.text import UNSTORABLE
from tests.seeds import drawn
from tests.server.interfaces import HERE, Interface

__all__ = ["Explorer"]

# What has no end, or takes its time, and has tests of its own.
SKIPPED = {
    "GET /api/v1/changes/events": "follows the log until its reader goes",
    "GET /api/v1/runs/{number}/events": "follows a run until it ends",
    "GET /api/v1/exports/{form}": "writes a snapshot of everything before it answers",
}
# What leaves less of the world for those after it comes at the end.
LAST = re.compile(r"POST /api/v1/apply|POST .*/pause|PATCH|DELETE")
# Against a request that hangs: the slowest one takes a tenth of a second.
PATIENCE_S = 30


def is_no_bug(_: CheckContext, response: Response, case: Case) -> bool | None:
    """Others may fail, which has statuses of its own, and a setting may be missing; anything else is our fault."""
    if response.status_code == 500 and response.json()["code"] != "configuration":
        raise AssertionError("It is answered with a bug.")
    return None


def is_taken_as_described(_: CheckContext, response: Response, case: Case) -> bool | None:
    """A request as the document has it may be refused for what it says, and never for its form.

    That a name, a cursor or a pattern means nothing is no matter of form: `errors` are told of that alone. Nor is a
    text that the database cannot store, which JSON Schema has no word for.
    """
    described = case.meta is not None and case.meta.generation.mode is GenerationMode.POSITIVE
    is_unstorable = UNSTORABLE.encode() in response.content
    if described and response.status_code == 400 and b'"errors":' in response.content and not is_unstorable:
        raise AssertionError("The document allows what is refused for its form.")
    return None


def refuses_what_is_wrong(ctx: CheckContext, response: Response, case: Case) -> bool | None:
    """A request that the document does not allow is refused, if it is still wrong once it is written down.

    In a query, a number or an object in the place of a list of texts is the list of one text.
    """
    sent = parse_qs(urlsplit(response.request.url or "").query, keep_blank_values=True)
    if case.operation.body or not all(_is_allowed(one, sent.get(one.name)) for one in case.operation.query):
        return negative_data_rejection(ctx, response, case)
    return None


def _is_allowed(parameter: OpenApiParameter, values: list[str] | None) -> bool:
    if values is None:
        return not parameter.is_required
    valid = jsonschema_rs.validator_for(parameter.definition["schema"])
    return any(valid.is_valid(one) for one in (values, values[-1], _read(values[-1])))


def _read(text: str) -> Any:
    """A number or a boolean, if it is one."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


CHECKS = [
    is_no_bug,
    is_taken_as_described,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    refuses_what_is_wrong,
]


class Explorer:
    """Asks all operations of an interface's document; `known` are values of parameters that lead to something."""

    def __init__(self, it: Interface, known: dict[str, dict[str, Any]], bodies: dict[str, Any]) -> None:
        self._it, self._known, self._bodies = it, known, bodies
        self._schema = schemathesis.openapi.from_dict(described(it.interfaces.inner.openapi()))
        # To be larger than a server takes is wrong enough.
        self._schema.config.checks.negative_data_rejection.expected_statuses.append("413")
        self.operations = [one.ok() for one in self._schema.get_all_operations()]
        self._loop = asyncio.get_running_loop()
        self.asked: dict[str, int] = {}
        self.findings: list[str] = []

    async def explore(self, name: str, *, examples: int) -> None:
        """Ask each operation a few times; the name decides, with the seed, which examples are drawn."""
        # Schemathesis and Hypothesis are not async; the server is, and stays in its loop.
        await asyncio.to_thread(self._explore, name, examples)

    def _explore(self, name: str, examples: int) -> None:
        for operation in sorted(
            self.operations, key=lambda one: (bool(LAST.match(one.label)), one.method != "get", -len(one.path))
        ):
            if operation.label not in SKIPPED:
                for place, cases in enumerate(self._strategies(operation)):
                    self._ask_some(cases, examples, drawn(f"{name} {operation.label} {place}"))

    def _strategies(self, operation: APIOperation) -> Iterator[st.SearchStrategy[Case]]:
        """Requests as they should be, about anything and about what there is; and such as should not be."""
        if can_be_wrong(operation):
            yield operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)
        yield operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
        known = self._known_of(operation)
        if known:
            yield operation.as_strategy(generation_mode=GenerationMode.POSITIVE, **known)

    def _known_of(self, operation: APIOperation) -> dict[str, Any]:
        room = operation.path.removeprefix("/api/v1").split("/")[1]
        values = self._known["everywhere"] | self._known.get(room, {})
        given_ = {
            "path_parameters": {one.name: values[one.name] for one in operation.path_parameters if one.name in values},
            "query": {one.name: values[one.name] for one in operation.query if one.name in values and one.is_required},
        }
        body = (
            {"body": self._bodies[operation.label], "media_type": "application/json"}
            if operation.label in self._bodies
            else {}
        )
        return {name: one for name, one in given_.items() if one} | body

    def _ask_some(self, cases: st.SearchStrategy[Case], examples: int, number: int) -> None:
        @seed(number)
        # What is wrong is collected, not raised: nothing is shrunk, and one finding hides no other.
        @settings(max_examples=examples, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
        @given(cases)
        def some(case: Case) -> None:
            self._ask(case)

        some()

    def _ask(self, case: Case) -> None:
        told = case.as_transport_kwargs(base_url=HERE)
        parts = {
            name: value
            for name, value in told.items()
            if name in ("method", "url", "headers", "params", "json", "data")
        }
        sent = requests.Request(**parts).prepare()
        asked = self._it.http.request(
            sent.method or "GET", sent.url or HERE, headers=dict(sent.headers), content=sent.body or b""
        )
        try:
            answer = asyncio.run_coroutine_threadsafe(asked, self._loop).result(PATIENCE_S)
        except httpx.InvalidURL:
            return  # longer than a client sends it
        label = case.operation.label
        self.asked[label] = self.asked.get(label, 0) + (answer.status_code < 400)
        try:
            case.validate_response(answer, checks=CHECKS)
        except BaseExceptionGroup as problem:
            words = "; ".join(" ".join(str(one).split())[:400] for one in problem.exceptions)
            sent_ = f"{sent.method} {sent.url} {sent.body!r}"
            self.findings.append(f"{label}: {words}\n  {sent_}\n  {answer.status_code} {answer.text[:400]}")


def can_be_wrong(operation: APIOperation) -> bool:
    """Whether there is more to a request than a path, in which any text may stand."""
    schemas = [one.definition.get("schema", {}) for one in operation.path_parameters]
    free = all(one.get("type") == "string" and not one.keys() & {"maxLength", "enum"} for one in schemas)
    return bool(operation.body or operation.query or not free)


def described(document: dict[str, Any]) -> dict[str, Any]:
    """The document as others get it, less what would leave nothing to find out.

    With `default` any status is documented; who may ask is another test's business; a key that is drawn twice is
    refused the second time.
    """
    told: dict[str, Any] = json.loads(json.dumps(document))
    for methods in told["paths"].values():
        for operation in methods.values():
            del operation["responses"]["default"]
            operation["security"] = []
            kept = [one for one in operation.get("parameters", ()) if one["name"] != "Idempotency-Key"]
            operation["parameters"] = kept
    return told
