"""What happened, as JSON lines: the first says what was simulated, each further one is an event.

`{"t": 12.0, "kind": "measured", "device": "d000001", "telemetry": {...}}`; `t` is in seconds since
the start. Compressed with zstd where the file's name ends in .zst. The same bytes for a seed.
"""

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import IO, Self

import zstandard
from pydantic import BaseModel

from cloud.rollouts.events import Came, Measured, Note, Removed, Reported, Returned, Told, Went
from shared.errors import Malformed
from simulations.fleet.agenda import EPOCH

LINE_BYTES_MAX = 64 * 1024 * 1024
"""The line of a rollout's creation names every device."""


class Trace:
    """Writes; use it as a context manager."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        self.lines = 0

    def __enter__(self) -> Self:
        raw = self._path.open("wb")
        zipped = self._path.suffix == ".zst"
        self._file = zstandard.ZstdCompressor(3).stream_writer(raw) if zipped else raw
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, line: Mapping[str, object]) -> None:
        assert self._file is not None, "a trace is written within `with`"
        self._file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
        self.lines += 1

    def record(self, now: float, kind: str, name: str, what: object) -> None:
        """As `World` calls it."""
        self.write({"t": round(now - EPOCH, 3), **_line(kind, name, what)})


def _line(kind: str, name: str, what: object) -> dict[str, object]:
    match what:
        case Measured(device, telemetry):
            return {"kind": "measured", "device": device, "telemetry": telemetry.model_dump()}
        case Reported(device, report):
            return {"kind": "reported", "device": device, "report": report.model_dump()}
        case Came(device) | Went(device) | Returned(device):
            return {"kind": type(what).__name__.lower(), "device": device}
        case Removed(device, why):
            return {"kind": "removed", "device": device, "why": why}
        case Told():
            return {"kind": "told", "rollout": name, **asdict(what)}
        case Note():
            return {"kind": "note", "rollout": name, "what": what.kind, "words": what.words,
                    "device": what.device}  # fmt: skip
        case BaseModel():
            return {"kind": kind, "name": name, "what": what.model_dump(mode="json")}
        case _ if is_dataclass(what) and not isinstance(what, type):
            return {"kind": kind, "name": name, "what": asdict(what)}
        case _:
            return {"kind": kind, "name": name, "what": what}


def read(path: Path) -> Iterator[dict[str, object]]:
    """Line by line, whatever wrote them. Raises `Malformed` with the line's number."""
    with path.open("rb") as raw:
        zipped = path.suffix == ".zst"
        stream: IO[bytes] = zstandard.ZstdDecompressor().stream_reader(raw) if zipped else raw
        lines = io.BufferedReader(stream) if zipped else stream  # type: ignore[type-var]  # a reader is raw I/O
        number = 0
        try:
            while content := lines.readline(LINE_BYTES_MAX + 1):
                number += 1
                yield _read(content, f"{path}, line {number}")
        except zstandard.ZstdError as error:
            raise Malformed(f"{path}, after line {number}: no zstd: {error}") from error


def _read(content: bytes, where: str) -> dict[str, object]:
    if len(content) > LINE_BYTES_MAX:
        raise Malformed(f"{where}: longer than {LINE_BYTES_MAX} bytes")
    try:
        line = json.loads(content)
    except ValueError as error:
        raise Malformed(f"{where}: no JSON: {error}") from error
    if not isinstance(line, dict):
        raise Malformed(f"{where}: want an object, as a trace or `mosquitto_sub -F %j` has them")
    return line
