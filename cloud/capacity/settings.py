"""The latency budget: what each stage of a request may take."""

from typing import Annotated

from pydantic import Field

from shared.config import Section

Ms = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Budget(Section):
    """Milliseconds that a stage may take at p99; None: it has no limit.

    The stages' limits add up to less than `total_ms`: their p99s rarely meet in one request, but
    what is between them (the operating system, the event loop) needs room, too.
    """

    network_ms: Ms | None = 10.0
    """From a request's first byte to its last. A body of 150 KB takes that at 120 Mbit/s; clients
    on mobile links need more, and no server makes them faster."""
    decode_ms: Ms | None = 2.0
    """Bytes to rows. Binary tensors take microseconds; 100 KB of JSON take this."""
    queue_ms: Ms | None = 20.0
    """Admitted, not yet running: what a full batch or two before it take."""
    model_ms: Ms | None = 15.0
    """The batch runs. Batches of 10 ms are what the batcher plans for."""
    encode_ms: Ms | None = 2.0
    """Outputs to bytes, handed to the socket; a batch of 256 rows as JSON takes this."""
    total_ms: Ms | None = 50.0
    """From the first byte in to the last one out: what `hybridge capacity measure` takes for the
    SLA, too. A call that a person does not notice beside the network's own 20 to 50 ms."""

    def limit_ms(self, stage: str) -> float | None:
        """None, too, for a stage that no limit is declared for."""
        value = getattr(self, f"{stage}_ms", None)
        return float(value) if isinstance(value, float | int) else None
