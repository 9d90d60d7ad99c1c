"""A recorded load as a small CSV file: how many requests arrived in each second. Pure."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass

_HEAD = ["second", "requests"]


@dataclass(frozen=True, slots=True)
class Trace:
    """`requests[i]` arrived in second i of the recording; each stands for `stands_for_s`."""

    name: str
    stands_for_s: float
    requests: tuple[int, ...]

    @property
    def peak(self) -> int:
        return max(self.requests)

    def scaled(self, peak_qps: float) -> list[float]:
        """The rate of each recorded second, with the peak at `peak_qps`."""
        return [count * peak_qps / self.peak for count in self.requests]


def write(trace: Trace, how: Sequence[str]) -> str:
    """`how`: comment lines that say how it was recorded."""
    lines = [f"# {line}" for line in how]
    lines += [f"# each second stands for: {trace.stands_for_s:g} s", ",".join(_HEAD)]
    lines += [f"{second},{count}" for second, count in enumerate(trace.requests)]
    return "\n".join(lines) + "\n"


def read(name: str, text: str) -> Trace:
    """Raises ValueError for a file that `write` did not write."""
    lines = text.splitlines()
    (stands,) = [line for line in lines if line.startswith("# each second stands for: ")]
    rows = list(csv.reader(line for line in lines if not line.startswith("#")))
    if rows[0] != _HEAD or [int(row[0]) for row in rows[1:]] != list(range(len(rows) - 1)):
        raise ValueError(f"{name}: no trace")
    return Trace(name, float(stands.split()[-2]), tuple(int(row[1]) for row in rows[1:]))
