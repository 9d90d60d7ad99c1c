"""Run a graph's bytes over images and say how good it is."""

import numpy as np
from numpy.typing import NDArray

from cloud.training.fashion_mnist import Split
from cloud.training.shifts import SHIFTS, shift
from shared.engines.engine import Session
from shared.wire.pixels import Decoder, Encoder

Floats = NDArray[np.float32]
Images = NDArray[np.uint8]


def logits(session: Session, images: Images, batch: int = 100) -> Floats:
    """Logits [N, classes] of uint8 images [N, H, W]."""
    return np.concatenate(
        [session.run(images[i : i + batch]) for i in range(0, len(images), batch)]
    )


def accuracy(outputs: Floats, labels: NDArray[np.int64]) -> float:
    return float((outputs.argmax(1) == labels).mean())


def under_shifts(session: Session, test: Split) -> dict[str, float]:
    """Accuracy on each of the six shifts of the test split."""
    return {
        kind: accuracy(logits(session, shift(test.images, kind)), test.labels) for kind in SHIFTS
    }


def as_escalated(images: Images, dictionary: bytes) -> tuple[Images, float]:
    """What arrives of images sent as `grey4`, and the mean payload in bytes."""
    encoder, decoder = Encoder("grey4", dictionary), Decoder((dictionary,))
    payloads = [encoder.encode(image) for image in images]
    arrived = np.stack([decoder.decode(payload) for payload in payloads])
    return arrived, float(np.mean([len(payload.data) for payload in payloads]))
