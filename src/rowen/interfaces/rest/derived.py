"""Routes derived from operations: parameters, request bodies, the required scope, and responses."""

import inspect
import re
import types
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from fastapi import APIRouter, Depends, Request
from fastapi import Body as InBody
from fastapi import Path as InPath
from fastapi import Query as InQuery
from fastapi.routing import APIRoute
from msgspec import UNSET, Meta
from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator
from starlette.responses import Response
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from rowen.errors import Hint, RefusedError, action
from rowen.interfaces.rest.answers import DEFAULT_LIMIT, listed, made, page, told
from rowen.interfaces.rest.shapes import Responses, example, list_example, list_shape, page_example, page_shape, shape
from rowen.model.access import Principal, Scope
from rowen.model.text import check_storable
from rowen.operations import Rowen
from rowen.operations.registry import Parameter, operation_named, scope_of, signature_of

_BOUNDS = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length")


@dataclass(frozen=True, slots=True)
class RouteCall:
    """A request to a route."""

    request: Request
    arguments: dict[str, Any]
    """The arguments of the operation: the values that were sent, and the reach of the caller."""
    added: Mapping[str, Any]
    """The values of parameters of the route that are not parameters of the operation."""

    @property
    def rowen(self) -> Rowen:
        """The client whose operations are called."""
        rowen: Rowen = self.request.app.state.rowen
        return rowen

    @property
    def caller(self) -> Principal:
        """The principal that sent the request."""
        principal: Principal = self.request.state.principal
        return principal


class Requirement:
    """A dependency that rejects callers without a scope; the OpenAPI document reads the scope from it."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    async def __call__(self, request: Request) -> Principal:
        """Return the caller; raise `RefusedError` if the caller's scope is not sufficient."""
        principal: Principal = request.state.principal
        self.check(principal)
        return principal

    def check(self, principal: Principal) -> None:
        """Raise `RefusedError` if the caller's scope is not sufficient."""
        if not principal.scope.allows(self.scope):
            raise RefusedError(
                f"{principal.name!r} may {principal.scope}, and this takes {self.scope}. Nothing was done.",
                hint=Hint("Who runs this server can make such a token: ", action("token add", scope=str(self.scope))),
            )


# Async, since FastAPI calls other dependencies in a thread, which takes a millisecond.
async def _service(request: Request) -> Rowen:
    rowen: Rowen = request.app.state.rowen
    return rowen


Service = Annotated[Rowen, Depends(_service)]


class CostlyRoute(APIRoute):
    """A route whose response is created and sent within the limits of exports."""

    async def handle(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Create and send the response; reject the request first if a limit is exceeded."""
        state = scope["state"]
        if state.get("from_other_site"):
            raise RefusedError(
                "The request comes from a page of another site. Nothing was done.",
                hint="Open the address by itself, or ask for it with a program.",
            )
        rowen: Rowen = scope["app"].state.rowen
        with rowen.limits.export(state["caller"]):
            await super().handle(scope, receive, send)


Handler = Callable[[RouteCall], Awaitable[Any]]


class RouteAnswer(NamedTuple):
    """The form in which the result of an operation is sent and documented."""

    render: Callable[[Request, Any], Response]
    responses: Responses
    model: Any = None
    status: int = 200
    defaults: Mapping[str, Any] = {}
    """Defaults of parameters that differ from the defaults of the operation."""
    is_json: bool = True


class RouteBody(NamedTuple):
    """The name of the schema of a request body, and an example."""

    name: str
    example: dict[str, Any] | None = None
    is_required: bool = False
    """Whether a body must be sent even if none of its fields is required."""


def fact_of(name: str) -> RouteAnswer:
    """Return the answer of a route whose result is one fact."""
    return RouteAnswer(told, {200: example(name)}, shape(name))


def list_of(name: str) -> RouteAnswer:
    """Return the answer of a route whose result is a whole list of facts."""
    return RouteAnswer(listed, {200: list_example(name)}, list_shape(name))


def page_of(name: str) -> RouteAnswer:
    """Return the answer of a route whose result is a page of a list of facts, with the address of the next page."""
    return RouteAnswer(page, {200: page_example(name)}, page_shape(name), defaults={"limit": DEFAULT_LIMIT})


def created(name: str, location: Callable[[Any], str], *, status: int = 201) -> RouteAnswer:
    """Return the answer of a route that creates a fact; the response has its address."""
    return RouteAnswer(
        lambda _, thing: made(thing, location(thing), status=status), {status: example(name)}, shape(name), status
    )


def empty() -> RouteAnswer:
    """Return the answer of a route without a response body."""
    return RouteAnswer(lambda *_: Response(status_code=204), {}, status=204)


def plain(values: Mapping[str, Any]) -> RouteAnswer:
    """Return the answer of a route whose result is a JSON object; the document has an example, but no schema."""
    return RouteAnswer(told, {200: {"content": {"application/json": {"example": values}}}})


def accepted(name: str) -> RouteAnswer:
    """Return the answer of a route that requests a change of a fact; the status is 202."""

    def render(request: Request, thing: Any) -> Response:
        answer = told(request, thing)
        answer.status_code = 202
        return answer

    return RouteAnswer(render, {202: example(name)}, shape(name), 202)


def custom(responses: Responses) -> RouteAnswer:
    """Return the answer of a route whose handler creates the response, in another format than JSON."""

    def render(_: Request, thing: Any) -> Response:
        raise TypeError(f"{type(thing).__name__} is not a response")

    return RouteAnswer(render, responses, is_json=False)


_NOTHING: Mapping[str, str] = types.MappingProxyType({})


class RouteGroup(APIRouter):
    """The routes of one resource."""

    def offer(self, name: str, route: str, operation: str, answer: RouteAnswer, **options: Any) -> None:
        """Add a route that calls an operation with the arguments that were sent, and returns the result.

        `name` is the name of the route in the OpenAPI document. `options` are parameters of `derive`.
        """
        declared = operation_named(operation)

        async def handler(call: RouteCall) -> Any:
            group, _, method = operation.partition(".")
            return await getattr(getattr(call.rowen, group), method)(**call.arguments)

        handler.__name__, handler.__doc__ = name, inspect.getdoc(declared.function)
        self.derive(route, operation, answer=answer, **options)(handler)

    def derive(
        self,
        route: str,
        *operations: str,
        answer: RouteAnswer,
        body: RouteBody | None = None,
        names: Mapping[str, str] = _NOTHING,
        adds: Mapping[str, tuple[Any, Any]] | None = None,
        only: Sequence[str] | None = None,
        without: Sequence[str] = (),
        defaults: Mapping[str, Any] | None = None,
        errors: Responses | None = None,
        **settings: Any,
    ) -> Callable[[Handler], Handler]:
        """Add a route with the parameters of the first operation; its handler may call all of the operations.

        `route` is the method and the path. A part of the path in braces is the parameter of the same name, or else the
        next parameter of the operation. All other parameters are fields of the body, or of the query if there is no
        body. `names` maps parameters to names that differ in REST; `adds` are parameters of the route, with their
        types and defaults.
        """
        method, _, path = route.partition(" ")
        signature = signature_of(operations[0]) if operations else None
        scope = scope_of(operations)
        parameters = list(signature.sent) if signature else []
        parameters = [
            parameter
            for parameter in parameters
            if parameter.name not in without and (only is None or parameter.name in only)
        ]
        for added, (kind, default) in (adds or {}).items():
            default = inspect.Parameter.empty if default is ... else default
            parameters.append(Parameter(added, kind, default, _help(kind), {}, {}, is_positional=False))
        places = re.findall(r"{(\w+)", path)
        by_name = {names.get(parameter.name, ""): parameter for parameter in parameters} | {
            parameter.name: parameter for parameter in parameters
        }
        in_path = {place: by_name[place] for place in places if place in by_name}
        free = (parameter for parameter in parameters if parameter not in in_path.values())
        in_path = {place: in_path.get(place) or next(free) for place in places}
        values = {**answer.defaults, **(defaults or {})}
        others = [parameter for parameter in parameters if parameter not in in_path.values()]
        reader = _Reader(in_path, others, names, values, body, route)
        has_reach = signature is not None and "reach" in signature.parameters

        def add(handler: Handler) -> Handler:
            async def endpoint(request: Request, **sent: Any) -> Response:
                arguments = reader.read(sent)
                added = {name: arguments.pop(name, default) for name, (_, default) in (adds or {}).items()}
                if has_reach:
                    arguments["reach"] = request.state.principal.reach
                result = await handler(RouteCall(request, arguments, added))
                return result if isinstance(result, Response) else answer.render(request, result)

            vars(endpoint)["__signature__"] = inspect.Signature([_REQUEST, *reader.signature()])
            vars(endpoint)["handler"], vars(endpoint)["operations"] = handler, operations
            settings.setdefault("response_model", answer.model)
            if not answer.is_json:
                settings.setdefault("response_class", Response)
            self.add_api_route(
                path,
                endpoint,
                methods=[method],
                name=handler.__name__,
                description=inspect.getdoc(handler),
                status_code=answer.status,
                responses={**answer.responses, **(errors or {})},
                dependencies=[] if scope is Scope.READ else [Depends(Requirement(scope))],
                **settings,
            )
            return handler

        return add


_REQUEST = inspect.Parameter("request", inspect.Parameter.KEYWORD_ONLY, annotation=Request)


class _Reader:
    """The parameters of a route in the form that FastAPI needs, and their conversion to arguments of the operation."""

    def __init__(
        self,
        in_path: Mapping[str, Parameter],
        others: Sequence[Parameter],
        names: Mapping[str, str],
        defaults: Mapping[str, Any],
        body: RouteBody | None,
        route: str,
    ) -> None:
        self._needs_body = body is not None and body.is_required
        self._in_path, self._others, self._defaults = in_path, others, defaults
        # In the body, lists have the parameter names of the operation; in a query, repeated parameters are singular.
        flags = {other.name: other.flag for other in others if body is None or other.flag == "all"}
        self._names = {other.name: other.name for other in others} | flags | dict(names)
        self._model = None if body is None else self._body_model(body, route)

    def signature(self) -> Iterator[inspect.Parameter]:
        """Yield the parameters for FastAPI."""
        only = inspect.Parameter.KEYWORD_ONLY
        for place, parameter in self._in_path.items():
            about = InPath(description=parameter.help, examples=_examples(parameter))
            kind = _without_none(_field_type(parameter.type))
            yield inspect.Parameter(place, only, annotation=Annotated[kind, about])
        if self._model is not None:
            needed = self._needs_body or any(field.is_required() for field in self._model.model_fields.values())
            empty_body = inspect.Parameter.empty if needed else self._model()
            yield inspect.Parameter("body", only, annotation=Annotated[self._model, InBody()], default=empty_body)
            return
        for parameter in self._others:
            query = InQuery(alias=self._names[parameter.name], description=parameter.help)
            default: Any = self._default(parameter)
            kind = _field_type(parameter.type)
            if (items := _item_type(parameter.type)) is not None:
                kind, default = types.GenericAlias(tuple, (items, ...)), default or ()
            elif "wire" in parameter.extra:
                kind = str if parameter.is_required or default is not None else str | None
            elif default is not None:
                kind = _without_none(kind)
            yield inspect.Parameter(f"query_{parameter.name}", only, annotation=Annotated[kind, query], default=default)

    def read(self, sent: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments that were sent, by the parameter names of the operation."""
        arguments = {parameter.name: sent[place] for place, parameter in self._in_path.items()}
        for other in self._others:
            if self._model is not None:
                body = sent["body"]
                if f"field_{other.name}" in body.model_fields_set or other.name in self._defaults:
                    arguments[other.name] = getattr(body, f"field_{other.name}")
            elif (value := sent[f"query_{other.name}"]) is not None and value != ():
                arguments[other.name] = other.convert(value) if "wire" in other.extra else value
        return arguments

    def _default(self, parameter: Parameter) -> Any:
        if parameter.name in self._defaults:
            return self._defaults[parameter.name]
        # The default of such a parameter is not text; it applies if nothing is sent.
        is_no_text = "wire" in parameter.extra and not parameter.is_required
        return None if parameter.default is UNSET or is_no_text else parameter.default

    def _body_model(self, body: RouteBody, route: str) -> type[BaseModel]:
        # Routes with the same body share its schema.
        if body.name in _MODELS:
            return _MODELS[body.name]

        class Base(_Body):
            model_config = ConfigDict(json_schema_extra={"example": body.example} if body.example else None)

        fields: dict[str, Any] = {}
        for other in self._others:
            about: dict[str, Any] = {"alias": self._names[other.name], "description": other.help or None}
            if not other.is_required:
                default = self._default(other)
                about["default"] = [] if default == () else default
            fields[f"field_{other.name}"] = (_field_type(other.type), Field(**about))
        model: type[BaseModel] = create_model(body.name, __base__=Base, __doc__=f"The body of `{route}`.", **fields)
        _MODELS[body.name] = model
        return model


_MODELS: dict[str, type[BaseModel]] = {}


class _Body(BaseModel):
    # An unknown field is an error, so that a misspelt field is not ignored.
    model_config = ConfigDict(extra="forbid")

    _storable = model_validator(mode="before")(check_storable)


def _field_type(hint: Any) -> Any:
    """Return a type that pydantic supports, with the bounds of the declared type."""
    origin = get_origin(hint)
    if origin is Annotated:
        bounds: dict[str, Any] = {}
        for meta in hint.__metadata__:
            if isinstance(meta, Meta):
                bounds |= {bound: value for bound in _BOUNDS if (value := getattr(meta, bound)) is not None}
                if most := (meta.extra or {}).get("over_http"):
                    bounds["le"] = most
        inner = _field_type(hint.__origin__)
        return Annotated[inner, Field(**bounds)] if bounds else inner
    parts = tuple(_field_type(part) if part is not Ellipsis else part for part in get_args(hint))
    if origin in (Union, UnionType):
        return Union[parts]  # noqa: UP007 (parts are known only here)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return types.GenericAlias(dict, parts)
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return types.GenericAlias(list, parts)
    return hint


def _item_type(hint: Any) -> Any:
    """Return the type of the items if the type allows a list; else None."""
    if get_origin(hint) is Annotated:
        return _item_type(hint.__origin__)
    if get_origin(hint) in (Union, UnionType):
        return next((item for part in get_args(hint) if (item := _item_type(part)) is not None), None)
    origin = get_origin(hint)
    is_list = isinstance(origin, type) and issubclass(origin, Sequence)
    return _field_type(get_args(hint)[0]) if is_list else None


def _without_none(kind: Any) -> Any:
    if get_origin(kind) not in (Union, UnionType):
        return kind
    return Union[tuple(part for part in get_args(kind) if part is not NoneType)]  # noqa: UP007


def _help(kind: Any) -> str:
    metas = [meta for meta in getattr(kind, "__metadata__", ()) if isinstance(meta, Meta)]
    return next((meta.description for meta in metas if meta.description), "")


def _examples(parameter: Parameter) -> list[Any] | None:
    metas = [meta for meta in getattr(parameter.type, "__metadata__", ()) if isinstance(meta, Meta)]
    return next((meta.examples for meta in metas if meta.examples), None)
