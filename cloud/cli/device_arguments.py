"""What `hybridge device` commands take, and how they show a device."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.fleet_completion import devices

if TYPE_CHECKING:
    from cloud.fleet.documents import Device

DeviceName = Annotated[
    str, typer.Argument(metavar="DEVICE", help="Its name.", autocompletion=devices)
]
Label = Annotated[
    list[str] | None, typer.Option("--label", "-l", metavar="NAME=VALUE", help="May repeat.")
]
ASSIGNMENTS_MAX = 64


def changed_labels(before: dict[str, str], words: Sequence[str]) -> dict[str, str]:
    """`site=lyon` sets a label, `spare-` takes it away. Raises `Malformed`."""
    from shared.errors import Malformed

    if len(words) > ASSIGNMENTS_MAX:
        raise Malformed(f"{len(words)} changes of labels; at most {ASSIGNMENTS_MAX} at once")
    after = dict(before)
    seen: set[str] = set()
    for word in words:
        name, equals, value = word.partition("=")
        if not equals and word.endswith("-"):
            name = word[:-1]
            after.pop(name, None)
        elif equals and name and value:
            after[name] = value
        else:
            raise Malformed(
                f"label {word[:80]!r}: write NAME=VALUE to set it, or NAME- to take it away"
            )
        if name in seen:
            raise Malformed(f"label {name[:80]!r}: is named twice")
        seen.add(name)
    return after


def labels_text(labels: dict[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items()))


def state_text(device: "Device") -> str:
    """What matters most, in a word or two."""
    if device.revoked_at is not None:
        return "revoked"
    if device.quarantine is not None:
        return "quarantined"
    return "online" if device.presence.online else "offline"


def running_text(device: "Device") -> str | None:
    return None if device.model is None else f"{device.model.model} {device.model.version}"


def wanted_text(device: "Device") -> str | None:
    """What it should run, where it is not there yet."""
    wanted, has = device.desired_model, device.model
    if wanted is None:
        return None
    if has is not None and (has.version, has.manifest_sha256) == (
        wanted.version,
        wanted.manifest_sha256,
    ):
        return None
    phase = f" ({has.phase})" if has is not None and has.generation == wanted.generation else ""
    return f"{wanted.model} {wanted.version}{phase}"
