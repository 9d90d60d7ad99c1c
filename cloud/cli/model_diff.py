"""`hybridge model diff`: two versions side by side, and what going from one to the other costs."""

from typing import TYPE_CHECKING

from cloud.cli.api_key import KeyFile
from cloud.cli.model_arguments import After, Before, ModelName
from cloud.cli.output import Format, Output, cell, grid, show, size
from cloud.cli.registry_session import Registry, ask

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from cloud.cli.version_difference import Difference, Figure, Side
    from cloud.registry.client.client import RegistryClient
    from cloud.registry.documents import Delta

_VALUE_MAX = 60  # characters of a manifest's member in a table
_DELTAS_OF_MAX = 256  # files that are asked about


def diff(
    name: ModelName,
    before: Before,
    after: After,
    *,
    registry: Registry = None,
    key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:
    """Compare two versions: manifest, metrics, files, evaluations, and what a device would download.

    Exit codes: 0 done, whether or not they differ, 1 refused, 2 wrong usage, 3 the registry cannot
    be reached.
    """

    async def work(asked: "RegistryClient") -> "Difference":
        from cloud.cli.version_difference import difference

        old, new = await _side(asked, name, before), await _side(asked, name, after)
        had = {file.sha256 for file in old.version.files}
        wanted = {file.sha256 for file in new.version.files} - had
        deltas: dict[str, list[Delta]] = {}
        for sha256 in sorted(wanted)[:_DELTAS_OF_MAX]:
            deltas[sha256] = await asked.deltas_to(sha256)
        return difference(old, new, deltas)

    found = ask(registry, key_file, work, model=name)
    show(found, output, lambda out: _print(out, found))


async def _side(asked: "RegistryClient", name: str, version: str) -> "Side":
    from cloud.cli.suggest import version_question
    from cloud.cli.version_difference import Side
    from cloud.registry.client.fetch import fetch_manifest
    from shared.errors import Unknown

    try:
        found = await asked.version(name, version)
    except Unknown as error:
        known = [one.version for one in await asked.versions(name)]
        raise Unknown(f"{error}{version_question(version, known)}") from error
    evaluation = None if found.evaluation is None else await asked.evaluation(found.evaluation)
    return Side(found, await fetch_manifest(asked, found), evaluation)


def _print(out: "Console", found: "Difference") -> None:
    before, after = found.before, found.after
    columns = ("", before, after)
    grid(
        out, f"{found.model} {before} -> {after}: manifest", columns,
        ((one.name, _short(one.before), _short(one.after)) for one in found.fields),
    )  # fmt: skip
    grid(
        out, "Files", ("path", "change", before, after, "to download"),
        (
            (
                one.path, one.change, one.before_bytes, one.after_bytes,
                f"{one.download_bytes:,}{' (delta)' if one.by_delta else ''}",
            )
            for one in found.files
        ),
    )  # fmt: skip
    _print_figures(out, "Metrics of training", ("metric", before, after, "change"), found.metrics)
    _print_figures(
        out, "Evaluations", ("variant", "metric", before, after, "change"), found.evaluations
    )
    if found.evaluated_on_other_hardware:
        out.print("The two were evaluated on different hardware: times and memory do not compare.")
    out.print(
        f"A device that runs {before} downloads {size(found.download_bytes)} "
        f"({found.download_bytes:,} bytes); one without it {size(found.full_bytes)}."
    )


def _print_figures(
    out: "Console", title: str, columns: tuple[str, ...], figures: "Iterable[Figure]"
) -> None:
    rows = []
    for one in figures:
        both = one.before is not None and one.after is not None
        change = f"{one.after - one.before:+.4g}" if both else ""  # type: ignore[operator]
        row = (one.metric, one.before, one.after, change)
        rows.append(row if len(columns) == len(row) else (one.of, *row))
    grid(out, title, columns, rows)


def _short(value: object) -> str:
    text = cell(value)
    return text if len(text) <= _VALUE_MAX else text[: _VALUE_MAX - 3] + "..."
