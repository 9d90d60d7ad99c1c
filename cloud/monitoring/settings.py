"""What is written down about single answers."""

from typing import Annotated, Literal

from pydantic import Field

from shared.config import Section

Rate = Annotated[float, Field(ge=0, le=100_000)]
BLOCK_BYTES = 64 * 1024  # what is written at once


class InferenceLogSettings(Section):
    """One JSON line for each answer that is logged, in `inference.log` of `state_dir`; of a second
    process with the same `state_dir` in `inference-2.log`, and so on.
    """

    share: Annotated[float, Field(ge=0, le=1)] = 0.01
    """Of the requests, picked by a hash of their ids: every worker that sees one, and every retry
    of it, picks the same. One in a hundred shows a shift within minutes and costs nothing."""
    notable_per_s: Rate = 10.0
    """Errors a second that are logged although they were not picked; unsure answers too, where
    `payload` keeps their inputs. Enough to see what goes on; an outage must not fill the disk."""
    lines_per_s_max: Rate = 1000.0
    """Lines a second in all; the rest is counted as dropped. A thousand take 1% of a processor."""
    pending_max: Annotated[int, Field(gt=0, le=1_000_000)] = 2048
    """Lines that may wait for the disk, in memory, about 1 KB each."""
    bytes_max: Annotated[int, Field(ge=2 * BLOCK_BYTES, le=2**34)] = 16 * 1024**2
    """Of one file; then `inference.log` becomes `inference.log.1` and a new one begins. Some 30,000
    lines, which an editor still opens."""
    files_max: Annotated[int, Field(gt=0, le=1000)] = 5
    """Files in all, the current one included; the oldest goes."""
    payload: Literal["never", "low_confidence"] = "never"
    """Whose rows are kept, as .npy files named by their digest in `inference-payloads`. Inputs may
    show people; never, unless asked for."""
    payload_bytes_max: Annotated[int, Field(gt=0, le=2**40)] = 256 * 1024**2
    """Bytes of those files in all; the oldest go first."""
    low_confidence_below: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Below it an answer is marked `low_confidence`: the winner is more likely wrong than right."""
    range_margin: Annotated[float, Field(ge=0, le=10)] = 0.05
    """How far beyond the outermost edges of the bundle's reference an input is still in range, in
    spans between those edges. One value in 2,000 lies beyond either: 0 marks 0.15% of the demo's
    images; 0.05 none of 2,000, and 60% of them when inverted; 0.25 24% of those."""
