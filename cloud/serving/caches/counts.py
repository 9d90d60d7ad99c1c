"""What was looked for and found, in plain numbers: a counter of Prometheus costs ten times as much.

Pure.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class LookUps:
    """Since the process started; each look-up is counted in one of them."""

    fresh: int = 0
    missed: int = 0
    stale: int = 0  # looked for because the model failed
    stale_missed: int = 0
    shared: int = 0  # features that were under way for another request
