"""`hybridge model push`: a bundle into the registry, where its evaluation is queued."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.api_key import KeyFile
from cloud.cli.completion import parents
from cloud.cli.model_arguments import evaluation_text, status_line
from cloud.cli.output import Format, Output, say, show, size
from cloud.cli.progress import byte_bar
from cloud.cli.registry_session import Code, DryRun, Registry, ask

if TYPE_CHECKING:
    from cloud.registry.client.client import RegistryClient
    from cloud.registry.client.push import Plan
    from cloud.registry.documents import Evaluation, ModelVersion, Origin

_AGAIN = "stopped; what came over stays there: run the same command again to go on"


def push(
    path: Annotated[Path, typer.Argument(help="The bundle's folder or .hyb file.")],
    *,
    parent: Annotated[
        str | None,
        typer.Option(help="Version of the same model that it comes from.", autocompletion=parents),
    ] = None,
    training_job: Annotated[str | None, typer.Option(help="What trained it.")] = None,
    dependency: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VERSION", help="What it needs or was made with; may repeat."),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Until its evaluation has ended; fail if it failed.")
    ] = False,
    registry: Registry = None,
    key_file: KeyFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Check a bundle, send what the registry lacks of it, and register it as a version.

    Files that the registry has are not sent. Interrupted, by whatever, it goes on where it was when
    run again; what is registered already is left alone. A new model is made, with the default gate.

    Exit codes: 0 done, 1 refused, or (with --wait) its evaluation did not pass, 2 wrong usage, 3 the
    registry cannot be reached, 4 this version is registered with another content.
    """
    origin = _origin(parent, training_job, dependency or [])
    from cloud.registry.client.push import parcel_of
    from shared.bundle.reader import open_bundle

    parcel = parcel_of(open_bundle(path, hashes_graphs=False), path)  # the registry hashes each
    name = parcel.manifest.name

    async def work(asked: "RegistryClient") -> "tuple[Plan, ModelVersion | None]":
        from cloud.registry.client.push import ensure_model, plan, push

        planned = await plan(asked, parcel)
        if dry_run:
            return planned, None
        await ensure_model(asked, name)
        with byte_bar(f"{name} {parcel.manifest.version}", planned.missing_bytes, output) as moved:
            return planned, await push(asked, planned, origin, moved)

    planned, version = ask(registry, key_file, work, stopped=_AGAIN)
    amounts = (
        f"{size(planned.missing_bytes)} of {size(parcel.total_bytes)} in {len(planned.missing)} of "
        f"{len(parcel.files)} files"
    )
    if version is None:
        line = "is registered already" if planned.is_registered else f"would send {amounts}"
        found = {
            "dry_run": True, "model": name, "version": parcel.manifest.version,
            "registered": planned.is_registered, "bytes": parcel.total_bytes,
            "missing_bytes": planned.missing_bytes,
            "missing": [one.sha256 for one in planned.missing],
        }  # fmt: skip
        show(found, output, lambda out: out.print(f"{name} {parcel.manifest.version} {line}"))
        return
    done = "was registered before" if planned.is_registered else f"sent {amounts}"
    if output is not Format.TABLE:
        say(f"{name} {parcel.manifest.version}: {done}")
    evaluation = None
    if wait:
        pushed = version
        evaluation, version = ask(registry, key_file, lambda asked: _evaluated(asked, pushed))
    _show(version, evaluation, done, output)
    if evaluation is not None and evaluation.state != "passed":
        raise typer.Exit(Code.REFUSED)


async def _evaluated(
    asked: "RegistryClient", pushed: "ModelVersion"
) -> "tuple[Evaluation | None, ModelVersion]":
    """The newest evaluation, ended, and what the version is then; None: there never was one."""
    from cloud.registry.client.waiting import ended, unended

    waiting = await unended(asked, pushed.model, pushed.version)
    if waiting is not None:
        await ended(asked, waiting.id)
    found = await asked.version(pushed.model, pushed.version)
    newest = None if found.evaluation is None else await asked.evaluation(found.evaluation)
    return newest, found


def _show(
    version: "ModelVersion", evaluation: "Evaluation | None", done: str, output: Format
) -> None:
    lines = [f"{status_line(version)}: {done}"]
    if evaluation is not None:
        lines.append(evaluation_text(evaluation))
    show(version, output, lambda out: out.print("\n".join(lines), soft_wrap=True))


def _origin(parent: str | None, training_job: str | None, dependencies: list[str]) -> "Origin":
    from pydantic import ValidationError

    from cloud.registry.documents import Dependency, Origin
    from shared.config import in_words

    pairs = [one.partition("=") for one in dependencies]
    for text, (name, equals, version) in zip(dependencies, pairs, strict=True):
        if not (name and equals and version):
            raise typer.BadParameter(f"--dependency {text[:100]!r}: write it as onnxruntime=1.20.1")
    try:
        return Origin(
            parent=parent,
            training_job=training_job,
            dependencies=tuple(
                Dependency(name=name, version=version) for name, _, version in pairs
            ),
        )
    except ValidationError as error:
        raise typer.BadParameter(in_words(error)) from error
