"""`hybridge model list|get|history|checklist`: what the registry knows of models."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.api_key import KeyFile
from cloud.cli.completion import models
from cloud.cli.model_arguments import (
    ModelName,
    VersionIfAny,
    VersionName,
    metrics_text,
    title,
)
from cloud.cli.model_fetch import fetch, fetch_report
from cloud.cli.output import Format, Output, facts, grid, moment, show
from cloud.cli.registry_session import Code, Registry, ask

if TYPE_CHECKING:
    from rich.console import Console

    from cloud.registry.client.client import RegistryClient
    from cloud.registry.documents import Evaluation, Model, ModelVersion


def list_models(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[MODEL]", help="List its versions.", autocompletion=models),
    ] = None,
    *,
    registry: Registry = None,
    key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:
    """List the models, or a model's versions.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the registry cannot be reached.
    """
    if name is None:
        found = ask(registry, key_file, lambda asked: asked.models())
        show(found, output, lambda out: _models(out, found))
        return
    model = name
    versions = ask(registry, key_file, lambda asked: asked.versions(model), model=model)
    show(versions, output, lambda out: _versions(out, model, versions))


def get(
    name: ModelName,
    version: VersionIfAny = None,
    *,
    out: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Fetch the bundle: a new folder, or a FILE.hyb."),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Fetch its newest evaluation's report: .html or .json."),
    ] = None,
    registry: Registry = None,
    key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:
    """Show a model, or one version of it; with --out, fetch its bundle, with --report its report.

    Every file is checked against the manifest. Interrupted, the same command goes on. Without
    VERSION, --out fetches the current release. A release's signature is put beside it, for
    `hybridge model verify --root`.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the registry cannot be reached.
    """
    if out is not None and report is not None:
        raise typer.BadParameter("--out and --report: one at a time")
    if out is not None:
        fetch(registry, key_file, name, version, out, output)
        return
    if report is not None:
        fetch_report(registry, key_file, name, version, report, output)
        return
    if version is None:
        model = ask(registry, key_file, lambda asked: asked.model(name), model=name)
        show(model, output, lambda console: _model(console, model))
        return
    wanted = version

    async def work(asked: "RegistryClient") -> "tuple[ModelVersion, Evaluation | None]":
        found = await asked.version(name, wanted)
        newest = None if found.evaluation is None else await asked.evaluation(found.evaluation)
        return found, newest

    found, newest = ask(registry, key_file, work, model=name, version=version)
    show(found, output, lambda console: _version(console, found, newest))


def history(
    name: ModelName,
    version: VersionIfAny = None,
    *,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="The newest ones.")] = 100,
    registry: Registry = None,
    key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:
    """Show who did what to a model or a version, when and why.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the registry cannot be reached.
    """
    found = ask(
        registry, key_file, lambda asked: asked.history(name, version, limit),
        model=name, version=version,
    )  # fmt: skip

    def table(out: "Console") -> None:
        from cloud.cli.registry_log import COLUMNS, row

        grid(
            out, f"History of {name}{f' {version}' if version else ''}",
            COLUMNS, map(row, found),
        )  # fmt: skip

    show(found, output, table)


def checklist(
    name: ModelName,
    version: VersionName,
    *,
    registry: Registry = None,
    key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:
    """Say what a version lacks before it may be released.

    Exit codes: 0 nothing is missing, 1 something is, or refused, 2 wrong usage, 3 the registry
    cannot be reached.
    """
    missing = ask(
        registry, key_file, lambda asked: asked.checklist(name, version),
        model=name, version=version,
    )  # fmt: skip

    def table(out: "Console") -> None:
        if not missing:
            out.print(f"{name} {version}: nothing is missing")
            return
        out.print(f"{name} {version} may not be released yet:")
        for line in missing:
            out.print(f"  - {line}")

    show({"ready": not missing, "missing": missing}, output, table)
    if missing:
        raise typer.Exit(Code.REFUSED)


def _models(out: "Console", found: "list[Model]") -> None:
    grid(
        out, "Models", ("model", "current", "owner", "gate", "since"),
        (
            (one.name, one.current or "none", one.owner, one.gate.rules, moment(one.created_at))
            for one in found
        ),
    )  # fmt: skip


def _versions(out: "Console", name: str, found: "list[ModelVersion]") -> None:
    grid(
        out, f"Versions of {name}", ("version", "state", "bytes", "pushed", "by", "why"),
        (
            (
                one.version, one.state, sum(file.bytes for file in one.files),
                moment(one.pushed_at), one.pushed_by, one.why,
            )
            for one in found
        ),
    )  # fmt: skip


def _model(out: "Console", model: "Model") -> None:
    gate = model.gate
    rows = (
        ("owner", model.owner), ("current release", model.current or "none"),
        ("rules", gate.rules), ("data set", gate.data_set or "the bundle's golden samples"),
        ("engines", ", ".join(gate.engines)), ("approval by", gate.approval),
        ("made", moment(model.created_at)), ("revision", model.revision),
    )  # fmt: skip
    facts(out, model.name, rows)


def _version(out: "Console", version: "ModelVersion", newest: "Evaluation | None") -> None:
    origin, approval = version.origin, version.approval
    rows: list[tuple[str, object]] = [
        ("state", f"{version.state}: {version.why}" if version.why else version.state),
        ("task", version.task),
        ("pushed", f"{moment(version.pushed_at)} by {version.pushed_by}"),
        ("manifest", version.manifest.sha256),
        ("parent", origin.parent),
        ("training job", origin.training_job),
        ("data set", version.lineage.get("data_set")),
        ("code", version.lineage.get("code_version")),
        ("needs", ", ".join(f"{one.name} {one.version}" for one in origin.dependencies) or None),
        ("approved", approval and f"{moment(approval.at)} by {approval.by}: {approval.comment}"),
    ]
    rows += [
        (f"release {launch.number}", f"{moment(launch.at)} by {launch.by}: {launch.comment}")
        for launch in version.launches
    ]
    facts(out, title(version), rows)
    grid(
        out, "Files", ("path", "bytes", "sha256"),
        ((file.path, file.bytes, file.sha256[:16]) for file in version.files),
    )  # fmt: skip
    if newest is not None:
        grid(
            out, f"Evaluation {newest.id}: {newest.state}", ("variant", "figures"),
            ((key, metrics_text(metrics)) for key, metrics in newest.metrics.items()),
        )  # fmt: skip
        grid(
            out, "Rules", ("holds", "variant", "rule", "why"),
            ((rule.holds, rule.variant, rule.rule, rule.why) for rule in newest.rules),
        )  # fmt: skip
