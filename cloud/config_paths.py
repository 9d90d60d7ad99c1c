"""Paths in a file of settings count from the folder that it lies in. Pure."""

from collections.abc import Collection, Mapping
from pathlib import Path


def from_folder(
    tree: Mapping[str, object], folder: Path, names: Collection[str]
) -> dict[str, object]:
    """The tree, with every path in it, which are the members called one of `names`, from `folder`."""
    found: dict[str, object] = {}
    for key, value in tree.items():
        if key in names and isinstance(value, str):
            found[key] = str(folder / value)
        elif isinstance(value, dict):
            found[key] = from_folder(value, folder, names)
        elif isinstance(value, list):
            found[key] = [
                from_folder(v, folder, names) if isinstance(v, dict) else v for v in value
            ]
        else:
            found[key] = value
    return found
