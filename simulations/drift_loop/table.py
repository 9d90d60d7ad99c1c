"""What the six runs showed, in Markdown. Pure."""

from cloud.demo.drift.verdict import Row, mean_regained

_HEADINGS = (
    "shift of two cameras in four", "alarm names the group after", "rows that taught",
    "edge on shifted images", "regained", "edge on clean images", "alarm to version",
)  # fmt: skip
_BEGIN, _END = "<!-- drift -->\n", "<!-- /drift -->"


def table(rows: list[Row], refused: Row | None) -> str:
    """`refused`: the run with a teacher that is worse than the edge; None: it was left out."""
    lines = [
        f"| {' | '.join(_HEADINGS)} |",
        "|---|---|---|---|---|---|---|",
        *map(_line, rows),
    ]
    words = [f"Regained on average: {mean_regained(rows):.0%}."] if rows else []
    if refused is not None:
        words.append(
            f"With a cloud model that was never shown such images, under {refused.kind}: "
            + (refused.why or "not refused")
            + "."
        )
    return "\n".join(lines) + "\n\n" + " ".join(words) + "\n"


def _line(row: Row) -> str:
    if row.why:
        return f"| {row.kind} | {row.delay_samples} samples | {row.data_rows} | {row.why} | | | |"
    return (
        f"| {row.kind} | {row.delay_samples} samples | {row.data_rows:,} | {row.before:.1%}, "
        f"{row.after:.1%} | {row.regained:.0%} | {row.clean_before:.1%}, {row.clean_after:.1%} | "
        f"{row.cycle_s:.0f} s |"
    )


def written(page: str, text: str) -> str:
    """The page with the text between its markers. Raises `ValueError` where it has none."""
    before, _, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not end:
        raise ValueError(f"there is no {_BEGIN.strip()} ... {_END} in the page")
    return f"{before}{_BEGIN}{text}{_END}{after}"
