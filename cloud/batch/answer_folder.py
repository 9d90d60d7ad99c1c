"""The folder that a job writes: parts, `errors.jsonl`, `_SUCCESS.json`, and the journal."""

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path

from cloud.batch.job import Job
from cloud.batch.journal import Entry, Journal, Part
from shared.disk import write_whole
from shared.errors import Unavailable

SUCCESS = "_SUCCESS.json"
ERRORS = "errors.jsonl"
_PART = re.compile(r"(?P<hidden>\.?)part-(?P<number>[0-9]{6,18})\.(jsonl|npz)(\.tmp)?")


class AnswerFolder:
    """All calls block. Raises `Unavailable` when the disk refuses."""

    def __init__(self, path: Path, journal: Journal, job: Job) -> None:
        self._path, self._journal, self._job = path, journal, job
        self._next = journal.next_part()

    @property
    def next_part(self) -> int:
        return self._next

    def tidy(self) -> None:
        """Remove what a killed run left, and the mark of success: there is work again."""
        try:
            for file in self._path.iterdir():
                found = _PART.fullmatch(file.name)
                if found and (found["hidden"] or int(found["number"]) >= self._next):
                    file.unlink()
            (self._path / SUCCESS).unlink(missing_ok=True)
        except OSError as error:
            raise Unavailable(f"{self._path}: cannot be tidied: {error.strerror}") from error

    def commit(self, content: bytes | None, rows: int, entries: Iterable[Entry]) -> None:
        """A part's bytes (None: it has no rows), then the journal's line for it."""
        part = None
        if content is not None:
            name = f"part-{self._next:06d}.{self._job.layout}"
            part = Part(self._next, name, rows, hashlib.sha256(content).hexdigest())
            self._write(name, content)
            self._next += 1
        self._journal.commit(part, entries)

    def write_errors(self, failed: Iterable[Entry], name: str = ERRORS) -> None:
        """One line for each input that failed; no file when none did."""
        lines = [
            json.dumps({"name": e.name, "size_bytes": e.size_bytes, "tag": e.tag, "why": e.why})
            for e in failed
        ]
        if lines:
            self._write(name, "".join(f"{line}\n" for line in lines).encode())
        elif (self._path / name).exists():
            (self._path / name).unlink()

    def write_summary(
        self, inputs: int, failed: int, name: str = SUCCESS, first_part: int = 0, **more: int
    ) -> None:
        """Counts and digests, from part `first_part` on; no times: reruns write the same."""
        parts = [part for part in self._journal.parts() if part.number >= first_part]
        digest = hashlib.sha256("".join(part.sha256 for part in parts).encode()).hexdigest()
        summary = {
            **self._job.model_dump(exclude={"source"}),
            "inputs": inputs,
            "failed": failed,
            **more,
            "rows": sum(part.rows for part in parts),
            "digest": digest,
            "parts": [{"file": p.file, "rows": p.rows, "sha256": p.sha256} for p in parts],
        }
        self._write(name, (json.dumps(summary, indent=1) + "\n").encode())

    def _write(self, name: str, content: bytes) -> None:
        write_whole(self._path / name, content)
