"""Whether a candidate can stand in for the active model: same question in, same answer out. Pure."""

from shared.bundle.manifest import Manifest, Tensor


def why_not(active: Manifest, candidate: Manifest) -> str | None:
    """None when it can; otherwise what differs and what to do."""
    if candidate.name != active.name:
        return f"it is the model {candidate.name}, this device runs {active.name}"
    if candidate.task != active.task:
        return f"its task is {candidate.task}, not {active.task}; release it under another name"
    if candidate.backbone is not None:
        return "it is a part of a cut model; a device runs whole ones"
    if candidate.inputs != active.inputs:
        return (
            f"its inputs are {_shown(candidate.inputs)}, applications here send "
            f"{_shown(active.inputs)}; release it under another name"
        )
    if candidate.labels != active.labels:
        return f"its labels differ: {_first_difference(active.labels, candidate.labels)}"
    return None


def _shown(tensors: tuple[Tensor, ...]) -> str:
    return ", ".join(f"'{t.name}' {t.dtype}{list(t.shape)}" for t in tensors)


def _first_difference(ours: tuple[str, ...], theirs: tuple[str, ...]) -> str:
    if len(ours) != len(theirs):
        return f"{len(theirs)} of them, not {len(ours)}; release it under another name"
    number = next(n for n, pair in enumerate(zip(ours, theirs, strict=True)) if pair[0] != pair[1])
    return (
        f"label {number} is {theirs[number][:80]!r}, not {ours[number][:80]!r}; release it under "
        "another name"
    )
