"""What is tried: the recipe as it is, and without one thing that it does. Pure."""

from dataclasses import dataclass
from typing import Final

from cloud.training.documents import FineTune
from simulations.drift_recovery.job import CLOUD, EDGE


@dataclass(frozen=True, slots=True)
class Trial:
    name: str
    audits: bool = True
    """Whether samples that were sent as audits are learnt from too."""
    imitate: bool = True
    feedback: bool = True
    """False: it only says what to imitate."""

    def recipe(self, seed: int) -> FineTune:
        plain = FineTune(version="1.0.1", student=EDGE, teacher=CLOUD, base="fashion-mnist")
        changes: dict[str, object] = {"fitting": plain.fitting.model_copy(update={"seed": seed})}
        if not self.imitate:
            changes["imitate"] = 0.0
        if not self.feedback:
            changes["field_rows"] = 0
        return plain.model_copy(update=changes)


WHOLE: Final = Trial("")
ABLATIONS: Final = (
    Trial("nothing imitated", imitate=False),
    Trial("imitation alone", feedback=False),
    Trial("no audits", audits=False),
)
ABLATED: Final = ("rotate 20 deg", "noise 30", "camera fault")
