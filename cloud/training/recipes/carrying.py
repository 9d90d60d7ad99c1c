"""The files of an order as bytes, for ranks on machines that do not have them. No torch, no Ray."""

import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cloud.training.child_messages import Order
from shared.errors import TooLarge

FILES_BYTES_MAX = 2 << 30
"""Of all together, before they are packed."""
_DATA_SET, _BASE, _BUNDLE = "data-set", "base", "bundle "


@dataclass(frozen=True, slots=True)
class Carried:
    """One file, or a folder as a tar archive."""

    name: str
    """Its last part: what reads it may go by the suffix."""
    content: bytes
    is_folder: bool


def packed(order: Order) -> dict[str, Carried]:
    """What the order names, by what it is there. Raises `TooLarge`."""
    paths = _paths(order)
    size = sum(_bytes(path) for path in paths.values())
    if size > FILES_BYTES_MAX:
        raise TooLarge(
            f"files of the job: {size} bytes is over {FILES_BYTES_MAX} that go to other machines; "
            'take less data, or the engine "local"'
        )
    return {what: _packed(path) for what, path in paths.items()}


def unpacked(order: Order, files: Mapping[str, Carried], folder: Path) -> Order:
    """The order with its files in `folder`, which is then the job's."""
    placed: dict[str, Path] = {}
    for number, (what, carried) in enumerate(sorted(files.items())):
        path = folder / "files" / str(number) / carried.name
        path.parent.mkdir(parents=True)
        if carried.is_folder:
            with tarfile.open(fileobj=io.BytesIO(carried.content)) as archive:
                archive.extractall(path, filter="data")
        else:
            path.write_bytes(carried.content)
        placed[what] = path
    bundles = {name: placed[_BUNDLE + name] for name in order.bundles}
    return order.model_copy(
        update={
            "folder": folder, "bundles": bundles,
            "data_set": placed.get(_DATA_SET), "base": placed.get(_BASE),
        }
    )  # fmt: skip


def _paths(order: Order) -> dict[str, Path]:
    named = {_BUNDLE + name: path for name, path in order.bundles.items()}
    if order.data_set is not None:
        named[_DATA_SET] = order.data_set
    if order.base is not None:
        named[_BASE] = order.base
    return named


def _bytes(path: Path) -> int:
    if not path.is_dir():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def _packed(path: Path) -> Carried:
    if not path.is_dir():
        return Carried(path.name, path.read_bytes(), is_folder=False)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(path, arcname=".")
    return Carried(path.name, buffer.getvalue(), is_folder=True)
