"""Which deltas are made."""

from typing import Annotated

from pydantic import Field

from shared.config import Count, Section


class DeltaSettings(Section):
    bytes_max: Count = 128 * 1024**2
    """Of either file; a larger one is only sent whole. Packing takes five times as much memory."""
    bytes_min: Count = 64 * 1024
    """Of the new file: a smaller one is a packet or two more."""
    releases: Annotated[int, Field(ge=0, le=10)] = 3
    """Of how many earlier releases a device may come from: the current one and the two before."""
