"""`hybridge budget show`: where requests' time goes, stage by stage, against declared limits."""

import json as json_format
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.api_key import KeyFile, read_key

if TYPE_CHECKING:
    from cloud.capacity.settings import Budget
    from cloud.capacity.stage_budget import Line, Times

budget = typer.Typer(no_args_is_help=True, help="Latency budgets: time by stage against limits.")


@budget.callback()
def _group() -> None:  # one command alone would lose its name
    pass


@budget.command()
def show(
    url: Annotated[str, typer.Option(help="A worker's API.")] = "http://127.0.0.1:8700",
    *,
    config: Annotated[
        Path | None, typer.Option(help="Its TOML file: limits are those of its \\[budget].")
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(metavar="STAGE=MS", help="A limit at p99, such as queue=5. May repeat."),
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=0, max=3600, help="Look for so long. 0: all since its start.")
    ] = 0.0,
    key_file: KeyFile = None,
    json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Show each stage's percentiles and share; exit code 1 when one is over its limit.

    p99s are taken from the worker's histograms, linearly within a bucket.
    """
    import time

    from cloud.capacity.stage_budget import lines, since

    limits = _limits(config, limit or [])
    key = read_key(key_file)
    times = _read(url, key)
    if seconds:
        time.sleep(seconds)
        times = since(times, _read(url, key))
    found = lines(times, limits)
    if json:
        typer.echo(json_format.dumps([_document(line) for line in found], indent=2))
    else:
        _print(found)
    if any(line.is_over for line in found):
        raise typer.Exit(1)


def _read(url: str, key: str | None) -> "dict[str, Times]":
    from cloud.capacity.asking import get
    from cloud.capacity.stage_budget import FAMILY, read_times
    from shared.errors import Malformed

    times = read_times(get(url, "/metrics", key).decode("utf-8", "replace"))
    if not times:
        raise Malformed(f"{url}/metrics: no {FAMILY} there; name a hybridge-cloud worker")
    return times


def _limits(config: Path | None, texts: list[str]) -> "Budget":
    from pydantic import ValidationError

    from cloud.capacity.settings import Budget
    from shared.config import in_words, read_toml
    from shared.errors import Malformed

    section = {} if config is None else read_toml(config).get("budget", {})
    if not isinstance(section, dict):
        raise Malformed(f"{config}: budget is a section: [budget]")
    over: dict[str, str] = {}
    for text in texts:
        stage, sign, value = text.partition("=")
        if not sign or f"{stage}_ms" not in Budget.model_fields:
            known = ", ".join(name.removesuffix("_ms") for name in Budget.model_fields)
            raise typer.BadParameter(f"--limit {text[:60]!r}: want STAGE=MS; stages are {known}")
        over[f"{stage}_ms"] = value
    try:
        return Budget.model_validate({**section, **over})
    except ValidationError as error:
        raise Malformed(f"{config or '--limit'}: {in_words(error)}") from error


def _document(line: "Line") -> dict[str, object]:
    figures = {
        name: _finite(getattr(line, name))
        for name in ("share", "mean_ms", "p50_ms", "p95_ms", "p99_ms")
    }
    return {
        "stage": line.stage, "count": line.count, **figures, "limit_ms": line.limit_ms,
        "over": line.is_over, "estimate": line.is_estimate,
    }  # fmt: skip


def _finite(value: float) -> float | str | None:
    """JSON has neither NaN nor infinity."""
    if math.isnan(value):
        return None
    return "inf" if math.isinf(value) else round(value, 4)


def _print(found: "list[Line]") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Latency budget, ms", title_justify="left")
    for name in ("stage", "count", "share", "mean", "p50", "p95", "p99", "limit", ""):
        table.add_column(name, justify="left" if name in ("stage", "") else "right")
    for line in found:
        verdict = (
            "" if line.limit_ms is None or not line.count else "over" if line.is_over else "met"
        )
        table.add_row(
            f"{line.stage}{'*' if line.is_estimate else ''}", f"{line.count:,}",
            f"{line.share:.0%}",
            *(_ms(value) for value in (line.mean_ms, line.p50_ms, line.p95_ms, line.p99_ms)),
            "-" if line.limit_ms is None else f"{line.limit_ms:g}", verdict,
        )  # fmt: skip
    if any(line.is_estimate for line in found):
        table.caption = "* the stages' figures added up: this worker has no histogram of the total"
    Console(markup=False, highlight=False).print(table)


def _ms(value: float) -> str:
    if math.isnan(value):
        return "-"
    return "off the scale" if math.isinf(value) else f"{value:,.2f}"
