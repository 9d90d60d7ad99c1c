"""Names for the strings that must never be mixed up. New sample ids come from `new_ids.py`."""

import re
from typing import NewType
from uuid import UUID

from shared.errors import Malformed

DeviceId = NewType("DeviceId", str)
SampleId = NewType("SampleId", UUID)

_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def device_id(text: str) -> DeviceId:
    """A device's name as it stands in topics: 1 to 64 of A-Z a-z 0-9 _ . -, no leading mark."""
    if not _DEVICE.fullmatch(text):
        raise Malformed(
            f"device id {text[:80]!r}: use 1 to 64 of letters, digits, '_', '.', '-', "
            "starting with a letter or digit"
        )
    return DeviceId(text)


def sample_id(text: str) -> SampleId:
    """Parse the textual form; raises `Malformed`."""
    try:
        return SampleId(UUID(text))
    except ValueError as error:
        raise Malformed(f"sample id {text[:80]!r} is not a UUID") from error
