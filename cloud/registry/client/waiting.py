"""Until an evaluation has ended: on the log, which says so, and not by asking again and again."""

from typing import Final

from cloud.registry.client.client import RegistryClient
from cloud.registry.documents import Evaluation
from shared.errors import Unavailable

_WAIT_S: Final = 30
_ENDS: Final = frozenset({"passed", "failed", "broken"})


async def ended(registry: RegistryClient, evaluation_id: str) -> Evaluation:
    """Wait for it without bound: an evaluation takes what it takes."""
    at = (await registry.state()).head.seq
    while True:
        found = await registry.evaluation(evaluation_id)
        if found.state in _ENDS:
            return found
        try:
            page = await registry.log(at, 500, _WAIT_S)
        except Unavailable:  # no log before the first root of trust: this is asked again instead
            continue
        if page.entries:
            at = page.entries[-1].seq


async def unended(registry: RegistryClient, model: str, version: str) -> Evaluation | None:
    """The version's evaluation that waits or runs, if there is one."""
    found = await registry.evaluations(model, version)
    return next((one for one in found if one.state not in _ENDS), None)
