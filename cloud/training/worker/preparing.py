"""A job's folder, and everything that it needs as files: the process then asks nobody for anything."""

import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cloud.registry.artifacts.blobs import Blobs
from cloud.training.child_messages import Order
from cloud.training.recipes.checkpoint_file import BYTES_MAX
from cloud.training.store.claim_rows import Claimed
from cloud.training.worker import data_set
from cloud.training.worker.apart import free_bytes
from cloud.training.worker.bundles import BundleShelf, wanted
from cloud.training.worker.settings import TrainWorker
from cloud.training.worker.sharing import CHECKPOINTS
from cloud.training.worker.threads import Threads
from shared.disk import NoRoom, writing
from shared.errors import NotTrusted, TooLarge, Unknown

_FASHION_MNIST: Final = "fashion-mnist"
REMADE: Final = ("inputs", "tmp")
"""Of a job's folder, for each of its attempts."""


@dataclass(frozen=True, slots=True)
class Preparing:
    settings: TrainWorker
    blobs: Blobs
    shelf: BundleShelf
    work_dir: Path

    def folder(self, job: str) -> Path:
        return self.work_dir / job

    async def order(
        self, job: Claimed, threads: Threads, said: Callable[[str], None] = lambda _: None
    ) -> Order:
        """`threads` work in the folder. `said` hears what the job has to do without.

        Raises `Refused` for what is not there or not what it should be, `Unavailable`.
        """
        settings, spec = self.settings, job.spec
        folder = self.folder(job.id).absolute()
        await threads.call(self._make, folder)
        rows: Path | None = None
        if spec.data_set is not None:
            rows = folder / "inputs" / "data_set.npz"
            await threads.call(
                data_set.bring, self.blobs, spec.data_set, rows, settings.folder_bytes_max,
                threads.cut,
            )  # fmt: skip
        bundles = {}
        for ref in wanted(spec.recipe):
            there = await self.shelf.bring(ref)
            place = folder / "inputs" / "bundles" / ref
            bundles[ref] = await threads.call(_copied, there, place)
        if job.checkpoint is not None:
            lost = await threads.call(self._bring_checkpoint, folder, *job.checkpoint, threads.cut)
            if lost:
                said(lost)
        return Order(
            job=job.id, recipe=spec.recipe, folder=folder, data_set=rows, bundles=bundles,
            base=self._base(getattr(spec.recipe, "base", None)),
            threads=max(1, spec.cpus // spec.processes), processes=spec.processes,
            checkpoint_s=settings.checkpoint_s, checkpoints_kept=settings.checkpoints_kept,
            engine=spec.engine,
        )  # fmt: skip

    def lacks_room(self) -> str:
        """Why no job may begin here, in words; empty where one may. Blocking."""
        try:
            free = free_bytes(self.work_dir)
        except OSError as error:
            return f"{self.work_dir}: {error.strerror or error}; is its disk there?"
        if free >= self.settings.free_bytes_min:
            return ""
        return (
            f"{self.work_dir}: {free // 2**20} MiB are free, under the "
            f"{self.settings.free_bytes_min // 2**20} MiB that stay (worker.free_bytes_min); make room"
        )

    def _make(self, folder: Path) -> None:
        """Empty but for checkpoints."""
        with writing(folder):
            (folder / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
            for entry in sorted(folder.iterdir()):
                if entry.name == CHECKPOINTS:
                    continue
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry)
                else:
                    entry.unlink()
            (folder / "tmp").mkdir()
        if lacks := self.lacks_room():
            raise NoRoom(lacks)

    def _base(self, name: str | None) -> Path | None:
        if name is None:
            return None
        folder = self.settings.base_data
        if folder is not None and (path := folder / f"{name}.npz").is_file():
            return path.absolute()
        if name == _FASHION_MNIST and self.settings.fashion_mnist.is_dir():
            return self.settings.fashion_mnist.absolute()
        raise Unknown(
            f"base {name}: this worker has no such data; put {name}.npz into the folder worker.base_data"
            + (", or install dataset-fashion-mnist" if name == _FASHION_MNIST else "")
        )

    def _bring_checkpoint(self, folder: Path, sha256: str, name: str, cut: threading.Event) -> str:
        """Of another machine. One that is gone for good costs time, not the job: in words, why it is not
        taken; empty where it is. Raises `Unavailable` where it cannot be had now: the job waits for it,
        since whoever begins anew leaves nobody a use for it.
        """
        target = folder / CHECKPOINTS / Path(name).name
        if target.exists():
            return ""
        beside = folder / "tmp" / target.name  # the next attempt clears what a kill left there
        try:
            data_set.written(
                self.blobs, sha256, beside, BYTES_MAX, cut
            )  # the job verifies it itself
            with writing(target):
                beside.replace(target)
        except (Unknown, TooLarge, NotTrusted) as error:
            beside.unlink(missing_ok=True)
            return f"the checkpoint of another machine is not taken: {error}"
        return ""

    def remove(self, job: str) -> None:
        """Of a job that is over: nobody goes on from it. Blocking; never raises."""
        shutil.rmtree(self.folder(job), ignore_errors=True)

    def prune(self, held: frozenset[str]) -> None:
        """Of folders of jobs that this worker has not the newest `folders_kept` stay, with their checkpoints:
        all else is brought anew. Never raises.
        """
        others = self._others(held)
        for entry in others[: self.settings.folders_kept]:
            for name in REMADE:
                shutil.rmtree(entry / name, ignore_errors=True)
        for entry in others[self.settings.folders_kept :]:
            shutil.rmtree(entry, ignore_errors=True)

    def make_room(self, held: frozenset[str]) -> None:
        """The oldest of them go, as many as it takes: what is shared of a checkpoint is in the store. Never
        raises.
        """
        for entry in reversed(self._others(held)):
            if not self.lacks_room():
                return
            shutil.rmtree(entry, ignore_errors=True)

    def _others(self, held: frozenset[str]) -> list[Path]:
        """Folders of jobs that this worker has not, the newest first."""
        try:
            others = [
                entry
                for entry in self.work_dir.iterdir()
                if entry.is_dir() and entry.name not in held
            ]
            others.sort(key=lambda entry: (-entry.stat().st_mtime, entry.name))
        except OSError:
            return []
        return others


def _copied(bundle: Path, folder: Path) -> Path:
    """Its own: the shelf may forget its one while the job runs. `folder` is this bundle's alone: two may be
    called the same where they come from.
    """
    target = folder / bundle.name
    with writing(target):
        folder.mkdir(parents=True, exist_ok=True)
        if bundle.is_dir():  # not by `copytree`, whose error does not say that there is no room
            for source in (bundle, *sorted(bundle.rglob("*"))):
                to = target / source.relative_to(bundle)
                to.mkdir() if source.is_dir() else shutil.copyfile(source, to)
        else:
            shutil.copyfile(bundle, target)
    return target
