"""Real images, as the model sees them: a few of each class are enough here."""

from pathlib import Path

import numpy as np
import pytest

from simulations.drift_bench.material import Material, of_images

_MODELS = Path(__file__).parents[3] / "models"


@pytest.fixture(scope="session")
def material() -> Material:
    with np.load(_MODELS / "fashion-mnist-test-2000.npz") as found:
        return of_images(_MODELS, found["images"][:500], found["labels"][:500])
