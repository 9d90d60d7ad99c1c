"""Write a file whole: after a kill or a power cut it is there with all its bytes, or not at all."""

import os
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """A temporary neighbour, synced, then renamed, then the folder synced. Raises `OSError`."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
