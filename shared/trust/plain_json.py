"""JSON that means the same to every reader, of bounded depth. Pure.

Signatures are over a canonical form that is made from what was parsed: two readers that parse one
text differently would believe two things under one signature.
"""

import json
from collections.abc import Callable

from shared.errors import Malformed

_DEPTH_MAX = 16
_INTEGER_MAX = 2**53  # every JSON reader agrees up to here
_DIGITS_MAX = 17


def parse(content: bytes, where: str) -> object:
    """JSON that means the same to every reader. Raises `Malformed`.

    No member twice, no fractions, no integer beyond 2^53, no lone surrogates, depth at most 16.
    """
    try:
        tree: object = json.loads(
            content,
            object_pairs_hook=_once,
            parse_float=_refuse("a fraction"),
            parse_constant=_refuse("NaN or Infinity"),
            parse_int=_integer,
        )
    except RecursionError as error:
        raise Malformed(f"{where}: nested deeper than {_DEPTH_MAX}") from error
    except ValueError as error:  # JSONDecodeError and UnicodeDecodeError too
        raise Malformed(f"{where}: not JSON as it is used here: {str(error)[:200]}") from error
    _check_depth(tree, where)
    return tree


def _check_depth(tree: object, where: str) -> None:
    layer = [tree]
    for _ in range(_DEPTH_MAX):
        below: list[object] = []
        for node in layer:
            if isinstance(node, dict):
                below.extend(node.values())
                texts = list(node)
            elif isinstance(node, list):
                below.extend(node)
                texts = []
            else:
                texts = [node] if isinstance(node, str) else []
            if not all(map(_encodes, texts)):
                raise Malformed(f"{where}: holds half a surrogate pair")
        if not below:
            return
        layer = below
    raise Malformed(f"{where}: nested deeper than {_DEPTH_MAX}")


def _encodes(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= mark <= "\udfff" for mark in text)


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a member stands twice")
    return found


def _integer(digits: str) -> int:
    if len(digits) > _DIGITS_MAX or abs(value := int(digits)) > _INTEGER_MAX:
        raise ValueError("an integer beyond 2^53")
    return value


def _refuse(what: str) -> Callable[[str], object]:
    def refuse(_: str) -> object:
        raise ValueError(what)

    return refuse
