"""How an evaluator works."""

from typing import Annotated

from pydantic import Field

from shared.config import Count, Positive, Section


class EvaluationSettings(Section):
    processes: Annotated[int, Field(ge=0, le=16)] = 1
    """Evaluators on this machine. One: two at once would measure each other's load. 0: none here."""
    lease_s: Annotated[float, Field(ge=5, le=3600)] = 60.0
    """An evaluation whose evaluator says nothing for so long is another's to claim; renewed at a
    third of it."""
    poll_s: Positive = 2.0
    """Between two looks for a queued evaluation: nobody tells another process's database."""
    time_limit_s: Positive = 600.0
    """For one variant of one bundle, all its measurements; whatever takes longer has hung."""
    nice: Annotated[int, Field(ge=0, le=19)] = 5
    """Of the processes that run models: whoever else works on this machine comes first."""
    threads: Annotated[int, Field(gt=0, le=256)] = 1
    """Of a model's engine. One, as on a device."""
    memory_bytes_max: Annotated[int, Field(ge=256 * 1024**2)] = 4 * 1024**3
    """Of data that one model's process may hold; over it the model has failed, not the machine."""
    bundle_bytes_max: Count = 512 * 1024**2
    """Of one bundle on disk, as `shared/bundle` reads it."""
    data_bytes_max: Count = 512 * 1024**2
    """Of a data set, unpacked: it is held in memory once."""
    batch_sizes: Annotated[tuple[Count, ...], Field(min_length=1, max_length=8)] = (1, 8, 32)
    """Tried for throughput; the best one's figure is kept."""
    latency_runs: Annotated[int, Field(ge=20, le=100_000)] = 400
    """At batch 1. Four times 100: a 99th percentile of fewer is one run's luck."""
    latency_rounds: Annotated[int, Field(gt=0, le=1000)] = 10
    """In so many turns with the current release: a slow minute of the machine meets both."""
    latency_s_max: Positive = 20.0
    """For all runs of one variant; a slow model is timed on fewer."""
    throughput_s: Positive = 0.5
    """For each batch size."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    """Of everything that is drawn: noise, rows, directions."""
    rows_min: Annotated[int, Field(gt=0)] = 20
    """A data set of fewer says nothing and is refused."""
    group_rows_min: Count = 20
    """A class or slice of fewer is listed, and does not count as the worst."""
    robustness_rows: Count = 500
    """Drawn for noise, blur and brightness."""
    noise: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Standard deviation, as a share of the input's range."""
    blur: Annotated[float, Field(gt=0, le=20)] = 1.0
    """Standard deviation of the Gaussian, in pixels."""
    brightness: Annotated[float, Field(gt=0, le=1)] = 0.2
    """Up and down, as a share of the input's range."""
    fgsm_step: Annotated[float, Field(gt=0, le=1)] = 8 / 255
    """Of each value, as a share of the input's range: the usual bound for 8-bit images."""
    fgsm_rows: Count = 50
    """Each costs 2 x `fgsm_directions` queries."""
    fgsm_directions: Annotated[int, Field(gt=0, le=10_000)] = 50
    """Antithetic pairs to estimate a gradient from."""
