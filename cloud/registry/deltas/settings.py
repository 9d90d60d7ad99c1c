"""Which deltas are made."""

from typing import Annotated

from pydantic import Field

from shared.config import Count, Section


class DeltaSettings(Section):
    bytes_max: Count = 256 * 1024**2
    """Of either file; a larger one is only sent whole. Packing takes three times as much memory."""
    bytes_min: Count = 64 * 1024
    """Of the new file: a smaller one is a packet or two more."""
    level: Annotated[int, Field(ge=1, le=19)] = 19
    """zstandard's. 19 takes about a minute of one core for each 100 MB that changed; 3 takes two
    seconds, and its deltas are a fifth larger."""
    releases: Annotated[int, Field(ge=0, le=10)] = 3
    """Of how many earlier releases a device may come from: the current one and the two before."""
