"""`hybridge model evaluate|approve|reject|retire|delete|gate`: what moves a version on."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cloud.cli.api_key import KeyFile
from cloud.cli.completion import data_sets
from cloud.cli.model_arguments import ModelName, VersionName, evaluation_text, status_line
from cloud.cli.output import Format, Output, show
from cloud.cli.registry_session import Code, Comment, DryRun, Registry, ask

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloud.registry.client.client import RegistryClient
    from cloud.registry.documents import Evaluation, Gate, Model, ModelVersion


def evaluate(
    name: ModelName,
    version: VersionName,
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Until it has ended; fail if it failed.")] = (
        False
    ),
    registry: Registry = None,
    key_file: KeyFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Queue an evaluation of a version on the engines that its model's gate names.

    With --wait, one that waits or runs already is waited for instead.

    Exit codes: 0 done, 1 refused, or (with --wait) not passed, 2 wrong usage, 3 the registry cannot
    be reached, 4 one waits or runs already.
    """
    if dry_run:
        _would(registry, key_file, name, version, "claimed", "queue an evaluation of", output)
        return

    async def work(asked: "RegistryClient") -> "Evaluation":
        from cloud.registry.client.waiting import ended, unended

        if not wait:
            return await asked.evaluate(name, version)
        queued = await unended(asked, name, version) or await asked.evaluate(name, version)
        return await ended(asked, queued.id)

    found = ask(registry, key_file, work, model=name, version=version)
    show(found, output, lambda out: out.print(evaluation_text(found), soft_wrap=True))
    if wait and found.state != "passed":
        raise typer.Exit(Code.REFUSED)


def approve(
    name: ModelName,
    version: VersionName,
    *,
    comment: Comment,
    registry: Registry = None,
    key_file: KeyFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Give a person's word for a candidate.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the registry cannot be reached, 4 it is no
    candidate, or somebody changed it meanwhile.
    """
    _judge("approve", name, version, comment, registry, key_file, dry_run, output)


def reject(
    name: ModelName,
    version: VersionName,
    *,
    comment: Comment,
    registry: Registry = None,
    key_file: KeyFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Veto a version that is not released. There is no way back: push a new version.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the registry cannot be reached, 4 it is released
    or has ended, or somebody changed it meanwhile.
    """
    _judge("reject", name, version, comment, registry, key_file, dry_run, output)


def delete(
    name: ModelName,
    version: VersionName,
    *,
    comment: Comment,
    registry: Registry = None,
    key_file: KeyFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Let a rejected or retired version's files go; its history stays, its number stays taken.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the registry cannot be reached, 4 something runs
    or needs it.
    """
    if dry_run:
        _would(registry, key_file, name, version, "deleted", "delete the files of", output)
        return

    async def work(asked: "RegistryClient") -> "ModelVersion":
        await asked.delete(name, version, comment)
        return await asked.version(name, version)

    _changed(ask(registry, key_file, work, model=name, version=version), output)


def gate(
    name: ModelName,
    *,
    rules: Annotated[
        str | None, typer.Option(help="As 'f1 >= current + 0.005 and p95_ms <= 20'.")
    ] = None,
    data_set: Annotated[
        str | None,
        typer.Option(
            help="The evaluation data, its newest version; '' for the golden samples alone.",
            autocompletion=data_sets,
        ),
    ] = None,
    engine: Annotated[
        list[str] | None, typer.Option(help="Must run it and hold the rules; may repeat.")
    ] = None,
    approval: Annotated[
        Literal["rule", "person"] | None, typer.Option(help="Who opens the gate.")
    ] = None,
    owner: Annotated[str | None, typer.Option(help="Of the model.")] = None,
    registry: Registry = None,
    key_file: KeyFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Declare what a model's versions must show before release; makes the model if need be.

    What is not named stays as it is. Without options: show it. A rule that does not parse is
    refused here and now.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the registry cannot be reached, 4 somebody changed
    it meanwhile.
    """
    asked_for = {
        "rules": rules, "data_set": data_set, "engines": engine, "approval": approval,
    }  # fmt: skip
    changes = {member: value for member, value in asked_for.items() if value is not None}

    async def work(asked: "RegistryClient") -> "Model":
        from cloud.registry.documents import Gate
        from shared.errors import Unknown

        before: Model | None = None
        try:
            before = await asked.model(name)
        except Unknown:
            if not changes and owner is None:
                raise
        wanted = _gate(before.gate if before else Gate(), changes)
        if before is not None and (dry_run or (not changes and owner is None)):
            return before.model_copy(update={"gate": wanted, "owner": owner or before.owner})
        if dry_run:
            return _unmade(name, owner, wanted)
        revision = before.revision if before else 0
        return await asked.set_model(name, owner=owner, gate=wanted, revision=revision)

    found = ask(registry, key_file, work, model=name)
    would = "would be: " if dry_run else ""
    shown = found.gate
    text = (
        f"{found.name}: {would}rules {shown.rules!r}, data set {shown.data_set or 'none'}, engines "
        f"{', '.join(shown.engines)}, approval by {shown.approval}, owner {found.owner}"
    )
    show(found, output, lambda out: out.print(text, soft_wrap=True))


def _gate(before: "Gate", changes: "Mapping[str, object]") -> "Gate":
    from pydantic import ValidationError

    from cloud.registry.documents import Gate
    from cloud.registry.evaluation.rules import parse
    from shared.config import in_words
    from shared.errors import Malformed

    tree = before.model_dump() | dict(changes)
    if tree["data_set"] == "":
        tree["data_set"] = None
    try:
        found = Gate.model_validate(tree)
    except ValidationError as error:
        raise Malformed(f"gate: {in_words(error)}") from error
    parse(found.rules)
    return found


def _unmade(name: str, owner: str | None, gate: "Gate") -> "Model":
    from cloud.registry.documents import Model

    return Model(name=name, owner=owner or "you", gate=gate, created_at=0.0, revision=0)


def _judge(
    verb: Literal["approve", "reject"], name: str, version: str, comment: str,
    registry: list[str] | None, key_file: Path | None, dry_run: bool, output: Format,
) -> None:  # fmt: skip
    if dry_run:
        event: Literal["approved", "rejected"] = "approved" if verb == "approve" else "rejected"
        _would(registry, key_file, name, version, event, verb, output)
        return

    async def work(asked: "RegistryClient") -> "ModelVersion":
        seen = await asked.version(name, version)
        return await asked.judge(verb, name, version, comment, seen.revision)

    _changed(ask(registry, key_file, work, model=name, version=version), output)


def _would(
    registry: list[str] | None, key_file: Path | None, name: str, version: str,
    event: Literal["claimed", "approved", "rejected", "deleted"], verb: str, output: Format,
) -> None:  # fmt: skip
    """Say what a change would do, by the table that the registry itself goes by."""

    async def work(asked: "RegistryClient") -> "tuple[ModelVersion, str]":
        from cloud.registry.catalog.states import Event, after

        found = await asked.version(name, version)
        return found, after(found.state, Event(event), f"{name} {version}")

    found, state = ask(registry, key_file, work, model=name, version=version)
    tree = {
        "dry_run": True, "model": name, "version": version, "would": verb, "state": found.state,
        "state_after": state,
    }  # fmt: skip
    then = "" if state == found.state else f", and make it {state}"
    line = f"would {verb} {name} {version}, which is {found.state}{then}"
    show(tree, output, lambda out: out.print(line, soft_wrap=True))


def _changed(version: "ModelVersion", output: Format) -> None:
    show(version, output, lambda out: out.print(status_line(version), soft_wrap=True))
