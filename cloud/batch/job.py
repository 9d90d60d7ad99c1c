"""What a batch job is: fixed when it begins, so that a rerun goes on in the same way."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Layout = Literal["jsonl", "npz"]


class Job(BaseModel):
    """Kept in the journal. The same job over the same inputs gives the same bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    format: Literal[1] = 1
    source: str
    model: str
    version: str | None
    """None: whatever version serves when a row's turn comes (near-line)."""
    bundle_sha256: str | None
    """Of the bundle's manifest, which lists the hashes of all else."""
    variant: str | None
    batch_rows: Annotated[int, Field(ge=1, le=1024)]
    """Rows in each run of the model. A float's last bits may depend on it, so it is fixed."""
    part_rows: Annotated[int, Field(ge=1, le=1_000_000)]
    """Rows in each file of answers: what a kill costs at most."""
    layout: Layout
    probabilities: bool
    """Whether every row has all of them, not the winner's alone."""

    def differs(self, other: "Job") -> str:
        """One line: what differs, empty when nothing does."""
        mine, others = self.model_dump(), other.model_dump()
        return ", ".join(
            f"{name} is {mine[name]!r} there and {others[name]!r} here"
            for name in mine
            if mine[name] != others[name]
        )
