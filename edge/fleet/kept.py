"""What the device keeps of its desired state over restarts. Pure."""

from dataclasses import dataclass

from shared.fleet.desired import DesiredModel, DesiredProfile


@dataclass(frozen=True, slots=True)
class Kept:
    model: DesiredModel | None = None
    """The newest that could be read."""

    model_generation: int = 0
    """The highest that came; above `model.generation` where that one could not be read."""

    model_why: str = ""
    """What was wrong with it; "" where nothing was."""

    profile: DesiredProfile | None = None
    """The newest that could be read."""

    profile_generation: int = 0
    """As `model_generation`."""

    profile_why: str = ""
    """Why it is not applied; "" where it is, or is yet to be."""

    applied: DesiredProfile | None = None
    """What is in force: `profile`, or one before it."""

    sequence: int = 0
    """Reports have numbers below this."""
