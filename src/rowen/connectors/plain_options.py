"""Options that pydantic checks as well, but only where one is set: until then it is not imported.

Most sources have none, and pydantic takes longer to be imported than a catalog takes to say that nothing changed. Only
plain values can be declared so: texts, numbers, flags, tuples and mappings of texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from functools import cache
from inspect import get_annotations
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, NoReturn, Self, get_origin

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

    from rowen.connectors.base import Options
else:
    Options = object

__all__ = ["PlainOptions", "option"]


class DeclaredOption(NamedTuple):
    """One option as it is declared; `how` is what pydantic's `Field` takes."""

    how: Mapping[str, Any]
    prepare: Callable[[Any], Any] | None = None
    check: Callable[[Any], Any] | None = None
    type: Any = None

    def usual(self) -> Any:
        """The value where none was given."""
        return self.how["default_factory"]() if "default_factory" in self.how else self.how["default"]


def option(
    *, prepare: Callable[[Any], Any] | None = None, check: Callable[[Any], Any] | None = None, **how: Any
) -> Any:
    """Declare an option, as pydantic's `Field` does.

    `prepare` makes a value of what was given, `check` raises `ValueError` for one that pydantic would let through.
    """
    return DeclaredOption(how, prepare, check)


class _Fields:
    """`model_fields` of the class that is asked."""

    def __get__(self, _: object, owner: type[PlainOptions]) -> dict[str, FieldInfo]:
        return _model(owner).model_fields


class PlainOptions(Options):
    """Options of a source: to those who use them the same as if pydantic had made them."""

    secret_neutral: ClassVar[frozenset[str]] = frozenset({"language"})
    text_or_file: ClassVar[frozenset[str]] = frozenset()
    declared: ClassVar[dict[str, DeclaredOption]] = {"language": DeclaredOption({"default": None}, type=str | None)}

    if not TYPE_CHECKING:
        model_fields = _Fields()

        def __init_subclass__(cls) -> None:
            own = get_annotations(cls).items()
            fields = {name: _typed(vars(cls)[name], kind) for name, kind in own if get_origin(kind) is not ClassVar}
            cls.declared = {**cls.declared, **fields}

        def __init__(self, **given: Any) -> None:
            values = dict(_model(type(self))(**given)) if given else {}
            usual = {name: one.usual() for name, one in self.declared.items() if name not in values}
            self.__dict__.update({name: values[name] if name in values else usual[name] for name in self.declared})

        def __setattr__(self, name: str, value: Any) -> NoReturn:
            raise AttributeError(f"options do not change; {name!r} is set when they are made")

        def __eq__(self, other: object) -> bool:
            return type(other) is type(self) and vars(other) == vars(self)

        __hash__ = None

        def __repr__(self) -> str:
            return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

        @classmethod
        def model_validate(cls, given: Mapping[str, Any]) -> Self:
            """Options by their names; raises what pydantic raises for those that are not allowed."""
            return cls(**given)

        def model_dump(
            self, *, mode: str = "python", exclude: AbstractSet[str] = frozenset(), exclude_defaults: bool = False
        ) -> dict[str, Any]:
            """The values by their names, without those that are wanted out."""
            chosen = {name: value for name, value in vars(self).items() if name not in exclude}
            if exclude_defaults:
                chosen = {name: value for name, value in chosen.items() if value != self.declared[name].usual()}
            return {name: _as_json(value) for name, value in chosen.items()} if mode == "json" else chosen


def _typed(given: Any, kind: Any) -> DeclaredOption:
    declared = given if isinstance(given, DeclaredOption) else DeclaredOption({"default": given})
    return declared._replace(type=kind)


def _as_json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


@cache
def _model(options: type[PlainOptions]) -> type[BaseModel]:
    """What pydantic makes of the declarations."""
    from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, create_model

    fields: dict[str, Any] = {}
    for name, one in options.declared.items():
        marks: list[Any] = [BeforeValidator(one.prepare)] if one.prepare else []
        marks += [AfterValidator(_unless_none(one.check))] if one.check else []
        fields[name] = (Annotated[one.type, *marks] if marks else one.type, Field(**one.how))
    return create_model(options.__name__, __config__=ConfigDict(extra="forbid", frozen=True), **fields)


def _unless_none(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else check(value)
