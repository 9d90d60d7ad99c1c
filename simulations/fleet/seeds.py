"""Randomness that depends on a seed and on names, never on the process. Pure."""

import hashlib
from random import Random

import numpy as np


def number(seed: int, *names: object) -> int:
    """128 bits of SHA-256 over the seed and the names."""
    text = "\0".join(map(str, (seed, *names)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big")


def generator(seed: int, *names: object) -> np.random.Generator:
    """For draws by the array."""
    return np.random.default_rng(number(seed, *names))


def source(seed: int, *names: object) -> Random:
    """For single draws, which are cheaper than numpy's."""
    return Random(number(seed, *names))


def name(seed: int, *names: object) -> str:
    """16 hex digits, as a boot has them."""
    return f"{number(seed, *names):032x}"[:16]
