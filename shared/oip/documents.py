"""Strict JSON, and typed access to its members: what is missing or wrong is named with its path."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar

from shared.errors import Malformed

T = TypeVar("T")
Parameter = bool | int | float | str
Document = dict[str, object]

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_KINDS = {
    dict: "an object",
    list: "an array",
    str: "a string",
    int: "an integer",
    bool: "a boolean",
}


def parse(text: bytes | memoryview, where: str) -> Document:
    """One JSON object of real text.

    NaN, Infinity, repeated members, half characters and depth without end are `Malformed`.
    """
    if not len(text):
        raise Malformed(f"{where} is empty; send a JSON object")
    try:
        value = json.loads(
            str(text, "utf-8"), parse_constant=_no_constant, object_pairs_hook=_no_repeats
        )
        if _SURROGATE.search(text):
            _refuse_half_characters(value)
    except RecursionError as error:
        raise Malformed(f"{where}: nested too deeply") from error
    except ValueError as error:  # JSONDecodeError, UnicodeDecodeError, an integer without end
        raise Malformed(f"{where} is not JSON: {str(error)[:200]}") from error
    if not isinstance(value, dict):
        raise Malformed(f"{where} is {kind_of(value)}; expected an object")
    return value


def member(document: Document, name: str, kind: type[T], where: str, default: T | None = None) -> T:
    """`document[name]`, which must be of exactly this kind (a boolean is no integer)."""
    value = document.get(name, default)
    if value is None and name not in document:
        raise Malformed(f"{where}: {name} is missing; expected {_KINDS[kind]}")
    if type(value) is not kind:
        raise Malformed(f"{where}: {name} is {kind_of(value)}; expected {_KINDS[kind]}")
    return value


def objects(document: Document, name: str, where: str, count_max: int) -> list[Document]:
    """The array of objects `document[name]`, [] when it is absent; bounded."""
    items = member(document, name, list, where, [])
    if len(items) > count_max:
        raise Malformed(f"{where}: {name} has {len(items)} items; at most {count_max} are read")
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise Malformed(f"{where}: {name}[{index}] is {kind_of(item)}; expected an object")
    return items


def parameters(document: Document, where: str) -> dict[str, Parameter]:
    """The `parameters` member: names to strings, numbers and booleans."""
    found: Document = member(document, "parameters", dict, where, {})
    checked: dict[str, Parameter] = {}
    for name, value in found.items():
        if not isinstance(value, bool | int | float | str):
            raise Malformed(
                f"{where}: parameters.{name[:40]} is {kind_of(value)}; "
                "a parameter is a string, a number or a boolean"
            )
        checked[name] = value
    return checked


def flag(parameters: Mapping[str, Parameter], name: str, where: str) -> bool | None:
    """A parameter that is a boolean where it is given."""
    value = parameters.get(name)
    if value is None or isinstance(value, bool):
        return value
    raise Malformed(f"{where}: parameters.{name} is {kind_of(value)}; expected a boolean")


def kind_of(value: object) -> str:
    """A JSON value's kind, in words."""
    if value is None:
        return "null"
    return _KINDS.get(type(value), "a number")


def dump(document: Mapping[str, object]) -> bytes:
    """Compact JSON. Raises `Malformed` for NaN and infinities, which JSON does not have."""
    try:
        return json.dumps(document, allow_nan=False, separators=(",", ":")).encode()
    except ValueError as error:
        raise Malformed("a number is NaN or infinite; JSON cannot say that, binary can") from error


def _refuse_half_characters(value: object) -> None:
    """JSON can escape half a surrogate pair, which no database, log or socket takes as text."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError("it holds half a surrogate pair, which is no text") from error


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number; send tensor data as binary to use it")


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise ValueError(f"member {twice[:40]!r} stands twice in one object")
    return document
