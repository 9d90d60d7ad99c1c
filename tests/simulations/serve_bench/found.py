"""Results to judge, made by hand."""

from cloud.capacity.load.outcomes import Phase
from simulations.serve_bench.results import Cell, Cells, Machine, Run, Subject

MACHINE = Machine(
    cpu="a CPU", cores=2, memory_gb=8, kernel="6", python="3.11", versions={"wrk": "4"}
)


def run(
    per_second: float = 100.0, p50_ms: float = 1.0, p99_ms: float = 2.0, *, failed: int = 0,
    other_cores: float = 0.0,
) -> Run:  # fmt: skip
    return Run(
        per_second=per_second, p50_ms=p50_ms, p99_ms=p99_ms, failed=failed, server_cpu_us=50.0,
        other_cores=other_cores,
    )  # fmt: skip


def cells(runs: dict[tuple[str, int], list[Run]], absent: dict[str, str] | None = None) -> Cells:
    names = dict.fromkeys(name for name, _ in runs)
    return Cells(
        measured_at="today", seconds=2,
        subjects=tuple(
            Subject(
                name=name, title=f"the {name}", version="1", is_ours=name.startswith("ours"),
                is_floor=name in ("bare", "echo"), is_front=True, started_s=1, pss_mb=2,
            )
            for name in names
        ),
        cells=tuple(
            Cell(subject=name, concurrency=level, runs=tuple(its))
            for (name, level), its in runs.items()
        ),
        absent=absent or {},
    )  # fmt: skip


def phase(
    *, answered: int = 1_000, p99_ms: float = 10.0, refused: int = 0, refused_p99_ms: float = 0.0,
    failed: int = 0,
) -> Phase:  # fmt: skip
    return Phase(
        asked_per_second=1_000, seconds=1, answered=answered, refused=refused, failed=failed,
        answered_p50_ms=1, answered_p99_ms=p99_ms, refused_p50_ms=1, refused_p99_ms=refused_p99_ms,
        late_p99_ms=0.1,
    )  # fmt: skip
