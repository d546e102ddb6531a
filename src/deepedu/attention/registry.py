"""Attention methods by name. A module of ``methods/`` is imported only when its method is asked for."""

import dataclasses
import difflib
import importlib
import inspect
import pkgutil
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from deepedu.attention import methods
from deepedu.attention.base import Method
from deepedu.base.errors import ConfigError, UnknownMethod


def method_names() -> list[str]:
    """The methods there are, in alphabetical order; imports none of them."""
    return sorted(module.name for module in pkgutil.iter_modules(methods.__path__))


def method_class(name: str) -> type[Method]:
    """The class of a method.

    Raises:
        UnknownMethod: there is none of that name.
    """
    if name not in method_names():
        close = difflib.get_close_matches(name, method_names(), n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ";"
        raise UnknownMethod(f"there is no attention method {name!r}{hint} There are: {', '.join(method_names())}")
    module = importlib.import_module(f"{methods.__name__}.{name}")
    found = [
        each
        for each in vars(module).values()
        if inspect.isclass(each) and issubclass(each, Method) and each.__module__ == module.__name__
    ]
    assert len(found) == 1, f"{module.__name__} defines one method"
    assert found[0].name == name, f"the method in {module.__name__} is called {found[0].name!r}"
    return found[0]


def make_method(name: str, fields: Mapping[str, str] | None = None) -> Method:
    """A method with some of its fields set from text, as a command line gives them.

    A field that is a method itself (a wrapper's) takes that method's name.

    Raises:
        UnknownMethod: there is none of that name.
        ConfigError: a field it does not have, or a value the field cannot take.
    """
    kind = method_class(name)
    types_of = typing.get_type_hints(kind)
    known = {field.name: types_of[field.name] for field in dataclasses.fields(kind)}
    values: dict[str, Any] = {}
    for key, text in (fields or {}).items():
        if key not in known:
            close = difflib.get_close_matches(key, list(known), n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ";"
            raise ConfigError(f"method {name!r} has no field {key!r}{hint} it has: {', '.join(known)}")
        values[key] = _value(f"{name}.{key}", text, known[key])
    return kind(**values)


def read_fields(text: str) -> dict[str, str]:
    """Fields as one setting holds them, ``key=value,key=value``.

    Raises:
        ConfigError: it is something else.
    """
    fields: dict[str, str] = {}
    for item in filter(None, (piece.strip() for piece in text.split(","))):
        key, equals, value = item.partition("=")
        if not equals:
            raise ConfigError(f"engine.method_set: expected key=value,key=value, came {text!r}")
        fields[key.strip()] = value.strip()
    return fields


def describe_fields(name: str) -> dict[str, str]:
    """Fields of a method with their defaults as text."""
    method = make_method(name)
    values = {field.name: getattr(method, field.name) for field in dataclasses.fields(method)}
    return {field: repr(value.name if isinstance(value, Method) else value) for field, value in values.items()}


def _value(where: str, text: str, kind: Any) -> Any:
    origin = typing.get_origin(kind)
    if origin is typing.Literal:
        allowed = [str(each) for each in typing.get_args(kind)]
        if text in allowed:
            return typing.get_args(kind)[allowed.index(text)]
        raise ConfigError(f"{where}: expected one of {', '.join(allowed)}, came {text!r}")
    if origin in (typing.Union, types.UnionType):
        inner = [each for each in typing.get_args(kind) if each is not type(None)]
        return None if text.lower() == "none" else _value(where, text, inner[0])
    if inspect.isclass(kind) and issubclass(kind, Method):
        return make_method(text)
    if kind is bool:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise ConfigError(f"{where}: expected true or false, came {text!r}")
    convert = typing.cast(Callable[[str], Any], kind)
    try:
        return convert(text)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where}: expected {kind.__name__}, came {text!r}") from error
