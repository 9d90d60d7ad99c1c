"""A version's bundle onto this machine, and beside it what proves a release offline."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from cloud.cli.model_arguments import title
from cloud.cli.output import Format, show, size
from cloud.cli.progress import byte_bar
from cloud.cli.registry_session import ask, ending

if TYPE_CHECKING:
    from cloud.registry.client.client import RegistryClient
    from cloud.registry.documents import ModelVersion

_AGAIN = "stopped; what came lies beside the target: run the same command again to go on"


def fetch(
    registry: list[str] | None, key_file: Path | None, name: str, version: str | None,
    target: Path, output: Format,
) -> None:  # fmt: skip
    """Make `target`: a folder, or a `.hyb` file; the newest release where `version` is None."""

    async def work(asked: "RegistryClient") -> "tuple[ModelVersion, Path | None]":
        from cloud.registry.client.fetch import fetch_bundle
        from shared.errors import Unknown

        wanted = version or (await asked.model(name)).current
        if wanted is None:
            raise Unknown(f"{name} has no released version; name one")
        found = await asked.version(name, wanted)
        total = sum(file.bytes for file in found.files)
        _check_free(target)
        folder = _folder(target, found)
        if not folder.exists():
            with byte_bar(title(found), total, output) as moved:
                await fetch_bundle(asked, found.manifest, folder, moved)
        if folder != target:
            await asyncio.to_thread(_pack, folder, target)
        return found, await _signature(asked, found, target)

    found, signature = ask(registry, key_file, work, model=name, version=version, stopped=_AGAIN)
    total = sum(file.bytes for file in found.files)
    tree = {
        "model": name, "version": found.version, "state": found.state, "bundle": str(target),
        "signature": signature and str(signature), "bytes": total,
    }  # fmt: skip
    beside = f", its signature in {signature}" if signature else ", not released: no signature"
    line = f"{target}: {title(found)}, {size(total)}{beside}"
    show(tree, output, lambda console: console.print(line, soft_wrap=True))


def fetch_report(
    registry: list[str] | None, key_file: Path | None, name: str, version: str | None,
    target: Path, output: Format,
) -> None:  # fmt: skip
    """Write the report of the version's newest evaluation that ended; the current release's where
    `version` is None. What was at `target` is replaced.
    """
    endings: dict[str, Literal["html", "json"]] = {".html": "html", ".json": "json"}
    kind = endings.get(target.suffix)
    if kind is None:
        raise typer.BadParameter(f"--report {str(target)[:200]}: name it .html or .json")

    async def work(asked: "RegistryClient") -> "tuple[ModelVersion, bytes]":
        from shared.errors import Unknown

        wanted = version or (await asked.model(name)).current
        if wanted is None:
            raise Unknown(f"{name} has no released version; name one")
        found = await asked.version(name, wanted)
        if found.evaluation is None:
            raise Unknown(f"{title(found)}: no evaluation of it has ended; ask for one")
        return found, await asked.report(found.evaluation, kind)

    from shared.disk import write_whole

    found, content = ask(registry, key_file, work, model=name, version=version)
    with ending():
        write_whole(target, content)
    tree = {
        "model": name, "version": found.version, "evaluation": found.evaluation,
        "report": str(target), "bytes": len(content),
    }  # fmt: skip
    line = f"{target}: report of {title(found)}, {size(len(content))}"
    show(tree, output, lambda console: console.print(line, soft_wrap=True))


def signature_beside(bundle: Path) -> Path:
    """Where a bundle's signature lies: `fashion-edge-1.0.0.sig.json`."""
    stem = bundle.name.removesuffix(".hyb")
    return bundle.with_name(f"{stem}.sig.json")


async def _signature(asked: "RegistryClient", version: "ModelVersion", target: Path) -> Path | None:
    from cloud.registry.client.signing import bundle_signature
    from shared.disk import write_whole

    if version.state != "released":
        return None
    path = signature_beside(target)
    write_whole(path, await bundle_signature(asked, version.model, version.version))
    return path


def _folder(target: Path, version: "ModelVersion") -> Path:
    """Where its files are put: `target` itself, or what is to be packed, which a cut may have left."""
    if target.suffix != ".hyb":
        return target
    return target.with_name(f".{target.name}.{version.manifest.sha256[:16]}")


def _check_free(target: Path) -> None:
    from shared.errors import InUse

    if target.exists() or target.is_symlink():
        raise InUse(f"{target} exists already; choose another name or remove it first")


def _pack(folder: Path, target: Path) -> None:
    import shutil

    from shared.bundle.writer import pack

    pack(folder, target)
    shutil.rmtree(folder, ignore_errors=True)
