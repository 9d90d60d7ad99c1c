"""How a process reads its settings: a TOML file, the command line on top, and then the checks."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from cloud.config_paths import from_folder
from shared.config import Section, in_words, read_toml
from shared.errors import Malformed

Settings = TypeVar("Settings", bound=Section)


def read_settings(
    cls: type[Section], path: Path, over: Mapping[str, object], paths: Collection[str]
) -> dict[str, object]:
    """The file's settings, with those of `over` on top, unchecked; `cls` has a `state_dir`.

    Members called one of `paths` count from the file's own folder, those in `over` from the working
    directory. Raises `Malformed` for a file that is no TOML.
    """
    tree = read_toml(path)
    # `state_dir` is always given, so that its default is the file's neighbour too
    tree.setdefault("state_dir", str(cls.model_fields["state_dir"].default))
    return _merged(from_folder(tree, path.parent, paths), over)


def checked(cls: type[Settings], tree: Mapping[str, object], where: str) -> Settings:
    """`where` is what messages call the tree. Raises `Malformed` in words."""
    try:
        return cls.model_validate(tree)
    except ValidationError as error:
        raise Malformed(f"{where}: {in_words(error)}") from error


def _merged(below: Mapping[str, object], over: Mapping[str, object]) -> dict[str, object]:
    """Section by section; one of another kind takes nothing from the file's."""
    merged = dict(below)
    for name, value in over.items():
        under = merged.get(name)
        mixes = isinstance(value, dict) and isinstance(under, dict) and "kind" not in value
        merged[name] = {**under, **value} if mixes else value  # type: ignore[dict-item]  # both are dicts
    return merged
