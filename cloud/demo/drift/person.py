"""A person who looks at samples and says what they show; here he knows it from the data set."""

import io
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from cloud.feedback.documents import SampleQuery
from cloud.learning.client.client import LearningClient
from shared.wire.pixels import Decoder, Encoder


class Person:
    """Labels samples of `images` [N, H, W] (with `labels` [N]), as they arrive with the payload codec."""

    def __init__(
        self, images: NDArray[np.uint8], labels: NDArray[np.int64], codec: str, dictionary: bytes
    ) -> None:
        encoder, decoder = Encoder(codec, dictionary), Decoder((dictionary,))
        self._known: Mapping[bytes, int] = {
            decoder.decode(encoder.encode(image)).tobytes(): int(label)
            for image, label in zip(images, labels, strict=True)
        }
        self.labelled = 0

    async def label(self, learning: LearningClient, model: str, holdout: float, most: int) -> int:
        """Up to `most` samples of the holdout; how many there were."""
        query = SampleQuery(model=model, holdout=holdout, unlabelled=True)
        done = 0
        for one in await learning.feedback.samples(query, at_most=most):
            tensor = np.load(io.BytesIO(await learning.feedback.tensor(one.device, one.id)))
            label = self._known.get(tensor.tobytes())
            if label is None:  # of a camera that did not drift
                continue
            await learning.feedback.label(one.device, one.id, label, "seen by a person")
            done += 1
        self.labelled += done
        return done
