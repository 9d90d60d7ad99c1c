"""The bounds of training's routes, and what its paths may hold. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

_NAME: Final = r"[a-z0-9][a-z0-9-]{0,63}"
PLACEHOLDERS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType({
    "job": (r"[a-z0-9][a-z0-9-]{0,79}", "a job's id, as it was given"),
    "team": (_NAME, "1 to 64 of a-z, 0-9 and '-', as 'vision'"),
    "artifact": (
        r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}",
        "1 to 100 of letters, digits, '.', '_' and '-', as the run lists it",
    ),
})  # fmt: skip
"""For the `PathRules` of the API that these routes are in."""


@dataclass(frozen=True, slots=True)
class TrainingLimits:
    waits_max: int = 64
    """Questions that wait for lines or points; each `train logs -f` has one."""
    wait_s_max: float = 55.0
    """How long each may wait; proxies close silent connections after a minute."""
    look_s: float = 0.5
    """Between two looks of one that waits: what it waits for is written by another process."""
    page_max: int = 1000
    """Jobs, lines or points of one answer."""
    downloads_max: int = 8
    """Artifacts that are sent at once."""
