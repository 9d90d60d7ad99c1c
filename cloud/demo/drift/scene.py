"""What the cameras see: real images, shifted from a moment on for half of them.

Fashion-MNIST's test images, which no model was fitted on: the first 3,000 are seen by cameras, the
other 7,000 by nobody, to measure on. A camera sees its 1,500 again after a minute at 25 a second.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloud.training import fashion_mnist
from cloud.training.shifts import shift

CLEAN: Final = 150
"""Images that each camera sees before the shift."""
SEEN: Final = 3_000
_FRAMES: Final = 12_000
"""Of each camera, the same images again and again: more than it gets to see."""
DRIFTING: Final = ("north-1", "north-2")
STEADY: Final = ("south-1", "south-2")

Images = NDArray[np.uint8]
Labels = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Scene:
    """Images are uint8 [N, 28, 28], labels int64 [N]."""

    kind: str
    clean: Images
    """As the steady cameras see them, and the others before the shift."""
    stream: Images
    """The same, shifted, as the drifting cameras see them."""
    stream_labels: Labels
    held: Images
    """Clean, seen by nobody."""
    held_shifted: Images
    held_labels: Labels
    gate: Images
    """Clean, of the calibration split: what the registry measures on."""
    gate_labels: Labels


def scene(kind: str, seed: int = 0) -> Scene:
    """Raises `Unknown` without the data set."""
    data = fashion_mnist.load()
    seen, held = data.test.images[:SEEN], data.test.images[SEEN:]
    return Scene(
        kind=kind, clean=seen,
        stream=shift(seen, kind, seed), stream_labels=data.test.labels[:SEEN],
        held=held, held_shifted=shift(held, kind, seed + 100), held_labels=data.test.labels[SEEN:],
        gate=data.calibrate.images, gate_labels=data.calibrate.labels,
    )  # fmt: skip


def write_gate(where: Scene, path: Path) -> None:
    np.savez_compressed(path, inputs=where.gate, labels=where.gate_labels)


def write_frames(where: Scene, folder: Path) -> dict[str, Path]:
    """One file for each camera: what it sees, in order, without labels."""
    clean = where.clean
    files = dict[str, Path]()
    for camera in (*DRIFTING, *STEADY):
        place, of = (*DRIFTING, *STEADY).index(camera), len(DRIFTING) + len(STEADY)
        before = clean[place * CLEAN : (place + 1) * CLEAN]
        if camera in DRIFTING:
            after = where.stream[DRIFTING.index(camera) :: len(DRIFTING)]
        else:
            after = clean[place::of]
        again = np.resize(np.arange(len(after)), _FRAMES - CLEAN)
        files[camera] = folder / f"{camera}.npy"
        np.save(files[camera], np.concatenate([before, after[again]]))
    return files
