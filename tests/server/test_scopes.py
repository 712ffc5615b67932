"""Each operation takes one scope, whichever interface it is called through."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import pytest
from fastapi.routing import APIRoute, iter_route_contexts

from rowen.interfaces.mcp.docs_server import DOCS_SERVER_TOOLS
from rowen.interfaces.mcp.tools import TOOLS
from rowen.interfaces.rest.app import api_of
from rowen.interfaces.rest.document import OPEN, scope_of
from rowen.interfaces.web.live import WATCHED
from rowen.interfaces.web.routing import ACTIONS, PAGES, QUESTIONS
from rowen.interfaces.web.view import Guarded
from rowen.model.access import Scope
from rowen.operations import VERBS, Rowen
from rowen.operations.registry import SIGNED, operations
from rowen.operations.registry import scope_of as scope_of_operations
from rowen.settings import Settings
from tests.conftest import ScratchDatabase
from tests.server.interfaces import interface

SCOPES = {name: one.scope for name, one in operations().items() if one.scope is not None}


def operation_of(node: ast.Attribute) -> str:
    """Return the operation that an expression such as `call.rowen.sources.add` names, or nothing."""
    parts = ast.unparse(node).rpartition("rowen.")[2].split(".") if "rowen." in ast.unparse(node) else []
    match parts:
        case [verb] if verb in VERBS:
            return f"{VERBS[verb]}.{verb}"
        case ["changes"]:
            return "changes.list"
        case [group, name] if f"{group}.{name}" in operations():
            return f"{group}.{name}"
    return ""


def called_by(function: Callable[..., Any], seen: set[object] | None = None) -> set[str]:
    """Return the operations that a function of an interface calls, also through functions beside it."""
    seen = set() if seen is None else seen
    if not isinstance(function, FunctionType) or function in seen or ".service" in function.__module__:
        return set()
    seen.add(function)
    found: set[str] = set()
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and (operation := operation_of(node.func))
        ):
            found.add(operation)
        elif isinstance(node, ast.Name):
            named = function.__globals__.get(node.id)
            of_ours = getattr(named, "__module__", "").startswith(
                ("rowen.interfaces.rest", "rowen.interfaces.web", "rowen.interfaces.mcp")
            )
            # A table of functions, such as that of the tabs of a page.
            several = named.values() if isinstance(named, dict) else [named] if of_ours else []
            for one in several:
                found |= called_by(one, seen)
    return found


def rest() -> Iterator[tuple[str, Scope, set[str]]]:
    for route in iter_route_contexts(api_of(Rowen(Settings(embedder="none"))).routes):
        if isinstance(route.original_route, APIRoute):
            endpoint: Any = route.original_route.endpoint
            # A derived route calls the operations that it names.
            handler = getattr(endpoint, "handler", endpoint)
            called = {*called_by(handler), *getattr(endpoint, "operations", ())}
            yield f"{min(route.methods or ())} {route.path}", scope_of(route), called


def pages() -> Iterator[tuple[str, Scope, set[str]]]:
    for path, handler in [*PAGES.items(), *QUESTIONS.items(), *ACTIONS.items(), *WATCHED.items()]:
        if isinstance(handler, Guarded):
            yield f"page {path}", handler.scope, called_by(handler.handler)
        else:
            yield f"page {path}", Scope.READ, called_by(handler)


def tools() -> Iterator[tuple[str, Scope, set[str]]]:
    for tool in (*TOOLS, *DOCS_SERVER_TOOLS):
        yield f"tool {tool.name}", tool.scope, called_by(tool.run)


DECLARED = [*rest(), *pages(), *tools()]


def test_every_route_page_and_tool_declares_the_scope_of_what_it_calls() -> None:
    wrong = []
    for name, scope, called in DECLARED:
        if any(part in name for part in (*OPEN, "/websub/")):
            wrong += [(name, called)] if called - SIGNED - {"changes.last_number"} or scope is not Scope.READ else []
        # What is at an address is looked up only for a caller who may; the rest of the page is for all.
        elif name == "page /add" and called == {"sources.preview", "limits.count"}:
            continue
        elif called - set(SCOPES) or scope_of_operations(called) is not scope:
            wrong.append((name, str(scope), {one: SCOPES.get(one) for one in called}))

    assert wrong == []
    assert len(DECLARED) > 180


def test_every_operation_of_the_table_is_called_by_an_interface_and_no_other_is() -> None:
    called = set().union(*(operations for _, _, operations in DECLARED))

    assert called == set(SCOPES) | SIGNED
    assert len(SCOPES) > 100


def test_rest_page_and_tool_require_the_same_scope_for_an_operation() -> None:
    by_operation: dict[str, set[Scope]] = {}
    for name, scope, called in DECLARED:
        changing = {one for one in called if SCOPES.get(one, Scope.READ) is not Scope.READ}
        if len(changing) == 1 and name != "page /add":
            by_operation.setdefault(changing.pop(), set()).add(scope)

    assert {operation: scopes for operation, scopes in by_operation.items() if scopes != {SCOPES[operation]}} == {}
    assert len(by_operation) > 40


@pytest.mark.parametrize("scope", ["read", "write", "admin"])
async def test_the_page_and_rest_let_the_same_callers_remove_pause_and_resume(
    database: ScratchDatabase, scope: str
) -> None:
    async with interface(database, trusts_loopback=False, requests_per_minute=100_000) as it:
        caller = await it.token(scope)
        pairs = [
            (("DELETE", "/api/v1/sources/nobody"), "/sources/nobody/remove"),
            (("DELETE", "/api/v1/webhooks/nobody"), "/webhooks/nobody/remove"),
            (("POST", "/api/v1/webhooks/nobody/pause"), "/webhooks/nobody/state"),
            (("POST", "/api/v1/webhooks/nobody/resume"), "/webhooks/nobody/replay"),
            (("POST", "/api/v1/queue/pause"), "/jobs/pause"),
            (("DELETE", "/api/v1/tokens/nobody"), "/tokens/nobody/revoke"),
        ]
        answers = []
        for (method, path), page in pairs:
            programs = await it.http.request(method, path, headers=caller)
            people = await it.http.post(page, headers=caller, data={"state": "paused", "since": "0"})
            answers.append((path, programs.status_code == 403, people.status_code == 403))

    refused = {"read": 6, "write": 3, "admin": 0}[scope]
    assert [path for path, by_programs, by_people in answers if by_programs is not by_people] == []
    assert sum(by_programs for _, by_programs, _ in answers) == refused
