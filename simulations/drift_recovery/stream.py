"""What one device would send of a stream of images, by the very rules that devices have."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloud.training.recipes.ground import Answering
from edge.routing.novelty import NoveltyWatch
from edge.routing.policy import policy_of
from edge.routing.settings import Routing
from edge.telemetry.sketching import Sketching
from shared.confidence import softmax

IMAGES_PER_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Sent:
    """Of the images that were sent, in order."""

    chosen: NDArray[np.intp]
    shares: NDArray[np.float32]
    """With which probability one like it was sent."""
    edge_labels: NDArray[np.int64]

    def escalated(self) -> "Sent":
        """Without audits."""
        kept = self.shares == 1.0
        return Sent(self.chosen[kept], self.shares[kept], self.edge_labels[kept])


def sent(edge: Answering, images: NDArray[np.uint8], seed: int) -> Sent:
    """By a device with default settings that sees `images` [N, H, W] one after another."""
    manifest, routing = edge.bundle.manifest, Routing()
    policy = policy_of(manifest.calibration, None, None, routing.audit_share)
    watch = NoveltyWatch(
        Sketching(manifest.reference), routing.novelty, routing.budget, routing.audit_share, 0.0
    )
    says = softmax(edge.logits(images), manifest.calibration.temperature)
    labels, confidences = says.argmax(1), says.max(1)
    draws = np.random.default_rng(seed).random(len(images))
    chosen, shares = list[int](), list[float]()
    for at, image in enumerate(images):
        confidence = float(confidences[at])
        looks = watch.said(int(labels[at]), confidence)
        novel = looks and watch.look(image, at / IMAGES_PER_S)
        route = policy.route(confidence, float(draws[at]), watch.audit_share)
        if novel or route != "accepted":
            chosen.append(at)
            shares.append(1.0 if novel or route == "escalated" else watch.audit_share)
    return Sent(
        np.array(chosen, np.intp), np.array(shares, np.float32), labels[chosen].astype(np.int64)
    )
