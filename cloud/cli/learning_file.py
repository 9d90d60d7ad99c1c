"""A document that a person writes as TOML: a job, a loop's settings, what a data set takes."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pydantic import BaseModel

D = TypeVar("D", bound="BaseModel")
Tree = dict[str, object]


def checked(kind: type[D], tree: Tree, where: str) -> D:
    """As a document. Raises `Malformed`: which member, what is wrong, and the name that was meant."""
    from pydantic import ValidationError

    from cloud.cli.suggest import question
    from shared.config import in_words
    from shared.errors import Malformed

    try:
        return kind.model_validate(tree)
    except ValidationError as error:
        wrong = (one["loc"][-1] for one in error.errors() if one["type"] == "extra_forbidden")
        name = next(wrong, None)
        meant = "" if name is None else question(str(name), _members(kind))
        raise Malformed(f"{where}: {in_words(error)[:600]}{meant}") from error


def _members(kind: "type[BaseModel]") -> Iterator[str]:
    """Of it, and of what it holds."""
    schema = kind.model_json_schema()
    for part in (schema, *schema.get("$defs", {}).values()):
        yield from part.get("properties", {})
