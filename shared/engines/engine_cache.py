"""Compiled engines on disk: found again only by what they were compiled from, for, and with."""

import hashlib
import os
import tempfile
from dataclasses import astuple, dataclass
from pathlib import Path

_DIGEST = hashlib.sha256().digest_size


@dataclass(frozen=True, slots=True)
class CacheKey:
    """Everything that a compiled engine depends on; any difference means: compile again."""

    artifact_sha256: str
    gpu: str
    runtime_version: str
    batch_max: int

    @property
    def file_name(self) -> str:
        text = "\0".join(str(part) for part in astuple(self))
        return hashlib.sha256(text.encode()).hexdigest()[:32] + ".engine"


def load_compiled(cache_dir: Path | None, key: CacheKey) -> bytes | None:
    """The compiled engine, or None when there is none or its file is damaged."""
    if cache_dir is None:
        return None
    try:
        content = (cache_dir / key.file_name).read_bytes()
    except OSError:
        return None
    digest, compiled = content[:_DIGEST], content[_DIGEST:]
    return compiled if hashlib.sha256(compiled).digest() == digest else None


def store_compiled(cache_dir: Path | None, key: CacheKey, compiled: bytes) -> None:
    """Keep it, whole or not at all. A full disk costs the next start a compilation, no more."""
    if cache_dir is None:
        return
    partial: Path | None = None
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=cache_dir, prefix=".", delete=False) as file:
            partial = Path(file.name)
            file.write(hashlib.sha256(compiled).digest() + compiled)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(cache_dir / key.file_name)
    except OSError:
        if partial is not None:
            partial.unlink(missing_ok=True)
