"""What an operator writes of a rollout, as the document that the fleet takes. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import ValidationError

from cloud.fleet.api.schemas import RolloutRequest
from cloud.rollouts.criteria import parse, parse_all
from cloud.rollouts.documents import CRITERIA
from shared.config import in_words
from shared.errors import Malformed

Members = Mapping[str, object]
_WAVES_MAX: Final = 20
_ELSE: Final = re.compile(r"[^A-Za-z0-9._-]")  # what no seed may hold


def model_subject(model: str, version: str, manifest_sha256: str | None = None) -> Members:
    subject = {"kind": "model", "model": model, "version": version}
    return subject if manifest_sha256 is None else subject | {"manifest_sha256": manifest_sha256}


def profile_subject(name: str, version: int) -> Members:
    return {"kind": "profile", "name": name, "version": version}


def seed_of(subject: Members) -> str:
    """The seed where nobody names one: the same version places devices the same way each time."""
    name = subject.get("model", subject.get("name"))
    return _ELSE.sub("-", f"{subject['version']}-{name}")[:64]


def request(members: Members) -> dict[str, object]:
    """The members that are set, checked for form. Raises `Malformed`.

    What only the fleet can check (that the version is released, the selector, the criteria's
    grammar) it checks.
    """
    said = {name: value for name, value in members.items() if value is not None}
    try:
        found = RolloutRequest.model_validate(said)
    except ValidationError as error:
        raise Malformed(f"the rollout: {in_words(error)}") from error
    return found.model_dump(mode="json", exclude_unset=True)


def waves_from(canary: float, factor: float = 2.0) -> tuple[float, ...]:
    """Cumulative shares after the canary, each `factor` times the one before, the last of them 1."""
    if not 0 < canary <= 1 or factor <= 1:
        raise Malformed("--exponential: wants a canary over 0 and a factor over 1")
    waves: list[float] = []
    share = canary
    while share < 1 and len(waves) < _WAVES_MAX:
        share = min(1.0, share * factor)
        waves.append(round(share, 6))
    if not waves or waves[-1] < 1:
        waves[-1:] = [1.0]
    return tuple(waves)


def criteria_from(named: Sequence[str], *, only: bool = False) -> tuple[str, ...] | None:
    """Each takes the place of the default of the same measure; the other defaults stay.

    `only`: none of the defaults stays. None: nothing was named, the fleet's defaults hold. Raises
    `Malformed`, with the position.
    """
    if not named:
        return None
    kept = () if only else CRITERIA
    taken = {one.name for one in parse_all(named)}
    return (*(one for one in kept if parse(one).name not in taken), *named)
