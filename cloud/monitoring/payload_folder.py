"""Inputs that are kept for people to look at: .npy files, bounded in all. Used by one thread."""

import re
from collections import OrderedDict
from io import BytesIO
from pathlib import Path

import numpy as np

from cloud.serving.job import Rows

FILES_MAX = 10_000  # a folder that lists at once
_OURS = re.compile(r"[0-9a-f]{32}\.npy")


class PayloadFolder:
    """Files named by their content's digest; the oldest go first. Read by the first `keep`."""

    def __init__(self, folder: Path, bytes_max: int, files_max: int = FILES_MAX) -> None:
        self._folder, self._bytes_max, self._files_max = folder, bytes_max, files_max
        self._sizes: OrderedDict[str, int] | None = None
        self._bytes = 0

    def keep(self, digest: bytes, rows: Rows) -> bool:
        """Write `rows`; False when they alone are over the bound. Raises OSError."""
        sizes = self._sizes if self._sizes is not None else self._read()
        name = f"{digest.hex()}.npy"
        if name in sizes:
            return True
        packed = BytesIO()
        np.save(packed, rows, allow_pickle=False)
        content = packed.getbuffer()
        if len(content) > self._bytes_max:
            return False
        while sizes and (
            self._bytes + len(content) > self._bytes_max or len(sizes) >= self._files_max
        ):
            self._drop_oldest(sizes)
        partial = self._folder / f"{name}.part"
        try:
            partial.write_bytes(content)
            partial.replace(self._folder / name)
        except OSError:
            partial.unlink(missing_ok=True)
            raise
        sizes[name] = len(content)
        self._bytes += len(content)
        return True

    def _read(self) -> OrderedDict[str, int]:
        """What is there from before; files that are not ours are left alone."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found: list[tuple[float, str, int]] = []
        for path in self._folder.iterdir():
            if path.name.endswith(".npy.part"):
                path.unlink()
            elif _OURS.fullmatch(path.name):
                status = path.stat()
                found.append((status.st_mtime, path.name, status.st_size))
        sizes = OrderedDict((name, size) for _, name, size in sorted(found))
        self._bytes = sum(sizes.values())
        while sizes and (self._bytes > self._bytes_max or len(sizes) > self._files_max):
            self._drop_oldest(sizes)
        self._sizes = sizes
        return sizes

    def _drop_oldest(self, sizes: OrderedDict[str, int]) -> None:
        name, size = next(iter(sizes.items()))
        (self._folder / name).unlink(missing_ok=True)
        del sizes[name]
        self._bytes -= size
