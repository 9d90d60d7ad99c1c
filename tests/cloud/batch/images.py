"""Inputs for batch tests: a folder of images whose answers are known, and the tiny bundle."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tests.tiny_bundle import sure_image, write_tiny_bundle


def tiny_bundle(folder: Path) -> Path:
    """Answers `sure_image(n)` with class n + 1, modulo 3."""
    path = folder / "bundle"
    if not path.exists():
        write_tiny_bundle(path, name="tiny-cloud", escalates=False, shift=1)
    return path


def png(pixels: NDArray[np.uint8]) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def npy(pixels: NDArray[Any]) -> bytes:
    out = io.BytesIO()
    np.save(out, pixels)
    return out.getvalue()


def npz(**arrays: NDArray[Any]) -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


def idx(pixels: NDArray[np.uint8]) -> bytes:
    head = bytes([0, 0, 8, pixels.ndim]) + b"".join(n.to_bytes(4, "big") for n in pixels.shape)
    return head + pixels.tobytes()


def noise(count: int, seed: int = 1) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (count, 4, 4), np.uint8)


def write_inputs(folder: Path) -> dict[str, int]:
    """Several formats and sizes; rows by name. Two of the files are bad."""
    contents = {
        "a/one.png": (png(sure_image(0)), 1),
        "a/two.png": (png(sure_image(1)), 1),
        "b.npy": (npy(noise(33)), 33),
        "bad.png": (b"\x89PNG\r\n\x1a\n and no more", 0),
        "c d.idx": (idx(noise(40, 2)), 40),
        "e.npz": (npz(images=noise(21, 3), labels=np.zeros(21, np.uint8)), 21),
        "f/größe.npy": (npy(sure_image(2)), 1),
        "g.txt": (b"nothing to see", 0),
    }
    for name, (content, _) in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return {name: rows for name, (_, rows) in contents.items()}


def lines(out: Path) -> list[dict[str, Any]]:
    """Every answer of the folder, in the order of its parts."""
    text = "".join(path.read_text() for path in sorted(out.glob("part-*.jsonl")))
    return [json.loads(line) for line in text.splitlines()]


def written(out: Path) -> dict[str, bytes]:
    """What users read of a folder: all but the journal."""
    return {
        path.name: path.read_bytes()
        for path in sorted(out.iterdir())
        if not path.name.startswith("journal.")
    }
