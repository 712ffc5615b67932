"""Options that are validated by pydantic only if one is set; until then pydantic is not imported.

Most sources set no options, and importing pydantic takes longer than an unchanged catalog takes to sync. Only plain
values can be declared this way: strings, numbers, flags, and tuples and mappings of strings.
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


class DeclaredOption(NamedTuple):
    """The declaration of one option; `how` holds the arguments for pydantic's `Field`."""

    how: Mapping[str, Any]
    prepare: Callable[[Any], Any] | None = None
    check: Callable[[Any], Any] | None = None
    type: Any = None

    def default(self) -> Any:
        """Return the default value of the option."""
        return self.how["default_factory"]() if "default_factory" in self.how else self.how["default"]


def option(
    *, prepare: Callable[[Any], Any] | None = None, check: Callable[[Any], Any] | None = None, **how: Any
) -> Any:
    """Declare an option as pydantic's `Field` does; `prepare` converts and `check` validates its value."""
    return DeclaredOption(how, prepare, check)


class _Fields:
    """A descriptor for `model_fields` of an options class; pydantic is imported on first access."""

    def __get__(self, _: object, owner: type[PlainOptions]) -> dict[str, FieldInfo]:
        return _model(owner).model_fields


class PlainOptions(Options):
    """Options of a source with the interface of a pydantic model."""

    secret_neutral: ClassVar[frozenset[str]] = frozenset({"language"})
    text_or_file: ClassVar[frozenset[str]] = frozenset()
    declared: ClassVar[dict[str, DeclaredOption]] = {"language": DeclaredOption({"default": None}, type=str | None)}

    if not TYPE_CHECKING:
        model_fields = _Fields()

        def __init_subclass__(cls) -> None:
            options = {}
            for name, kind in get_annotations(cls).items():
                if get_origin(kind) is not ClassVar:
                    value = vars(cls)[name]
                    declared = value if isinstance(value, DeclaredOption) else DeclaredOption({"default": value})
                    options[name] = declared._replace(type=kind)
            cls.declared = {**cls.declared, **options}

        def __init__(self, **options: Any) -> None:
            values = dict(_model(type(self))(**options)) if options else {}
            for name, declared in self.declared.items():
                self.__dict__[name] = values[name] if name in values else declared.default()

        def __setattr__(self, name: str, value: Any) -> NoReturn:
            raise AttributeError(f"Options are immutable: {name!r} is set when they are created.")

        def __eq__(self, other: object) -> bool:
            return type(other) is type(self) and vars(other) == vars(self)

        __hash__ = None

        def __repr__(self) -> str:
            return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

        @classmethod
        def model_validate(cls, options: Mapping[str, Any]) -> Self:
            """Create options from a mapping of names to values; raise the validation errors of pydantic."""
            return cls(**options)

        def model_dump(
            self, *, mode: str = "python", exclude: AbstractSet[str] = frozenset(), exclude_defaults: bool = False
        ) -> dict[str, Any]:
            """Return the values by option name."""
            values = {name: value for name, value in vars(self).items() if name not in exclude}
            if exclude_defaults:
                values = {name: value for name, value in values.items() if value != self.declared[name].default()}
            if mode == "json":
                values = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
            return values


@cache
def _model(options: type[PlainOptions]) -> type[BaseModel]:
    """Return the pydantic model for the declared options."""
    from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, create_model

    def unless_none(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda value: None if value is None else check(value)

    fields: dict[str, Any] = {}
    for name, declared in options.declared.items():
        validators: list[Any] = [BeforeValidator(declared.prepare)] if declared.prepare else []
        validators += [AfterValidator(unless_none(declared.check))] if declared.check else []
        annotation = Annotated[declared.type, *validators] if validators else declared.type
        fields[name] = (annotation, Field(**declared.how))
    return create_model(options.__name__, __config__=ConfigDict(extra="forbid", frozen=True), **fields)
