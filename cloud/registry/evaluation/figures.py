"""What was measured, as report.json gives it. Shares are in 0..1, times in ms, sizes in bytes."""

from pydantic import Field

from cloud.document import Document
from cloud.registry.documents import Evaluation, Hardware, Metrics

REFERENCE = "reference"  # the fp32 answers that a bundle carries, beside its variants


class ClassFigures(Document):
    label: str
    rows: int
    precision: float | None  # None: it was never answered
    recall: float | None  # None: no row has it
    f1: float | None
    auc: float | None
    counts: bool  # enough rows to be the worst


class SliceFigures(Document):
    name: str
    rows: int
    accuracy: float
    counts: bool


class Bin(Document):
    """Of the reliability diagram: rows whose confidence lies in it, and their means."""

    rows: int
    confidence: float
    accuracy: float


class Quality(Document):
    rows: int
    classes: tuple[ClassFigures, ...]
    slices: tuple[SliceFigures, ...]
    bins: tuple[Bin, ...]
    confusion: tuple[tuple[int, ...], ...]  # [label][answer]; () for very many classes


class Latency(Document):
    runs: int
    quantiles_ms: tuple[float, ...]  # 101 of them: 0%, 1% ... 100%
    throughput_per_s: dict[int, float]  # by batch size


class Shaken(Document):
    """Accuracy on the rows drawn, as they are and changed."""

    name: str
    rows: int
    clean: float
    accuracy: float


class Boundary(Document):
    name: str
    finite: bool
    agrees: bool  # with the reference variant's winner


class Gradient(Document):
    """A step along the estimated gradient, and one of the same size in a random direction."""

    rows: int
    queries: int
    clean: float
    stepped: float
    random: float


class Robustness(Document):
    shaken: tuple[Shaken, ...] = ()
    boundary: tuple[Boundary, ...] = ()
    gradient: Gradient | None = None


class Measured(Document):
    """One variant of one version on one machine."""

    model: str
    version: str
    variant: str
    hardware: str  # fingerprint
    metrics: Metrics = Field(default_factory=dict)
    missing: dict[str, str] = Field(default_factory=dict)  # metric -> why it is not there
    notes: tuple[str, ...] = ()
    broke: str = ""  # why the model's engine did not do its work; "" when it did
    quality: Quality | None = None
    latency: Latency | None = None
    robustness: Robustness = Robustness()


class Pair(Document):
    """Golden answers of two variants, or of one and the stored fp32 reference, side by side."""

    variant: str
    other: str  # a variant, or `REFERENCE`
    difference_max: float | None  # None: not finite
    agreement: float
    within: bool  # what the bundle allows


class Report(Document):
    """report.json, format 1."""

    format: int = 1
    evaluation: Evaluation  # as it ended, but for the reports' own hashes
    hardware: Hardware
    rules: str
    seed: int
    data: str  # what was measured on, in words
    measured: tuple[Measured, ...]
    current: dict[str, Measured]  # by the variant that was held against it
    pairs: tuple[Pair, ...]
    not_run: dict[str, str]  # variants that this machine cannot run -> why
    took_s: float
