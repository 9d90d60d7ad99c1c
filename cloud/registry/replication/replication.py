"""This registry's place among the regions: home, a replica of one, or fenced off by a newer home."""

import asyncio
import logging
from pathlib import Path

from cloud.registry.artifacts.artifacts import Artifacts
from cloud.registry.catalog.catalog import Catalog
from cloud.registry.catalog.chain import EMPTY
from cloud.registry.replication.change_log import ChangeLog, SignHead
from cloud.registry.replication.home_watch import HomeWatch, keep_aside
from cloud.registry.replication.log_answer import LogAnswer
from cloud.registry.replication.one_at_a_time import one_at_a_time
from cloud.registry.replication.region_status import RegionStatus
from cloud.registry.replication.replica import Replica
from cloud.registry.replication.role import RoleFile, RoleName
from cloud.registry.replication.role_settings import current_role, followed
from cloud.registry.replication.settings import HomeSettings, PeerSettings
from cloud.registry.replication.signed_heads import SignedHeadFile
from cloud.registry.replication.trusted_root import TrustedRoot
from shared.errors import HybridgeError, ReadOnly, Unavailable, Unknown
from shared.trust.names import ROOT_BYTES_MAX
from shared.trust.pinned_root import read_pinned_root

log = logging.getLogger(__name__)

FOLDER = "replication"


class Replication:
    """Build it at the start; then `start`, `run` in the service's TaskGroup, `drain` to end it.

    Belongs to one event loop. When `role_changed` is set the process is to be built anew: the role
    was switched by a promotion, or this home was fenced.
    """

    def __init__(
        self,
        *,
        name: str,
        home: HomeSettings | None,
        peers: PeerSettings,
        state_dir: Path,
        catalog: Catalog,
        artifacts: Artifacts,
        sign: SignHead | None,
        alone: bool = False,
    ) -> None:
        """`alone`: be home although no peer answers. Raises `Malformed`, `Unavailable`."""
        self._name, self._home, self._peers, self._alone = name, home, peers, alone
        self._catalog, self._artifacts = catalog, artifacts
        self._folder = state_dir / FOLDER
        self._role_file = RoleFile(state_dir)
        self._role = current_role(self._role_file, home)
        passed_on = SignedHeadFile(self._folder / "signed_head.json")
        self._log = ChangeLog(catalog, sign if self._role.role == "home" else None, passed_on)
        self.role_changed = asyncio.Event()
        self._stop = asyncio.Event()
        self._head = EMPTY  # as last seen
        self._watch: HomeWatch | None = None
        self._replica: Replica | None = None
        self._rootless = ""  # why it cannot know whether another was promoted

    @property
    def role(self) -> RoleName:
        return self._role.role

    @property
    def is_home(self) -> bool:
        """Whether it may write, of its own accord too."""
        return self._role.role == "home" and not self._is_unsure

    def check_writable(self) -> None:
        """Before every change. Raises `ReadOnly`, which says whom to ask."""
        homes = " or ".join(self._role.homes) or "its home"
        match self._role.role:
            case "replica":
                raise ReadOnly(f"this registry is a replica and takes no changes; ask {homes}")
            case "fenced":
                raise ReadOnly(
                    f"this registry was home until epoch {self._role.epoch}, and {homes} is home "
                    "now: ask that one; make this one its replica with: hybridge registry rejoin"
                )
            case "home" if self._watch is not None and self._watch.set_back:
                raise ReadOnly(f"no changes: {self._watch.set_back}")
            case "home" if self._rootless:
                raise ReadOnly(f"no changes: {self._rootless}")
            case "home" if self._is_unsure:
                raise ReadOnly(
                    f"none of the peers ({', '.join(self._peers.urls)}) answers, so one of "
                    "them may be home by now: no changes until one does; where they are lost, start "
                    "this registry with --alone"
                )

    def changed(self) -> None:
        """Say that the catalog has new entries."""
        self._log.changed()

    async def answer(self, after: int, limit: int, wait_s: float) -> LogAnswer:
        """`GET /v1/log`. Raises `Malformed`, `Unavailable`."""
        return await self._log.answer(after, limit, wait_s)

    async def start(self) -> None:
        """Before anything is served: a home asks its peers whether it still is.

        Raises `Malformed`, `Unavailable` for what it cannot work with.
        """
        self._head = await asyncio.to_thread(self._catalog.head)
        match self._role.role:
            case "home":
                await self._start_watch(alone=self._alone)
            case "replica":
                kept = self._folder / "root.json"
                home = followed(self._role, self._home, self._peers, kept)
                root = await asyncio.to_thread(self._root_from_file, home.root)
                self._replica = Replica(
                    self._name, home, self._peers, self._catalog, self._artifacts, root,
                    self._folder, self._log.changed,
                )  # fmt: skip
            case "fenced":
                pass

    async def run(self) -> None:
        """Until `drain`. Raises what it died of, `InUse` where another process runs this registry."""
        with one_at_a_time(self._folder, "second one", "running"):
            async with asyncio.TaskGroup() as parts:
                by_role = parts.create_task(self._by_role(), name="region")
                await self._stop.wait()
                by_role.cancel()

    def drain(self) -> None:
        self._stop.set()

    def status(self) -> RegionStatus:
        """From memory: it may be asked as often as one likes."""
        if self._replica is not None:
            return self._replica.status(self._head)
        head = self._log.newest or self._head
        role = self._role
        return RegionStatus(
            role=role.role, state="unsure" if self._is_unsure else "home" if self.is_home else "fenced",
            epoch=head.epoch, seq=head.seq, home=role.homes[0] if role.homes else None,
            why=role.why or (self._watch.set_back if self._watch else ""),
        )  # fmt: skip

    @property
    def _is_unsure(self) -> bool:
        if self._role.role != "home":
            return False
        watch = self._watch
        if watch is None:
            return bool(self._rootless)
        return watch.is_unsure or bool(watch.set_back)

    async def _start_watch(self, *, alone: bool) -> None:
        """None where nobody could be asked, or no keys were made yet: then nobody was promoted."""
        others = self._home.urls if self._home else ()
        if not (self._peers.urls or others):
            return
        try:
            root = await self._root_of_home()
        except Unavailable as error:
            log.error("own_root_unreadable", extra={"why": str(error)})  # noqa: TRY400  no trace to show
            self._rootless = "" if alone else f"nobody's root can be checked by it: {error}"
            return
        if root is not None:
            self._watch = HomeWatch(
                self._peers, others, self._catalog, root, self._own_root, self._role_file,
                alone=alone,
            )  # fmt: skip
        self._rootless = ""  # not before somebody watches: it would take changes meanwhile
        if self._watch is None:
            return
        await self._watch.look()
        if self._watch.fenced is not None:
            self._role = self._watch.fenced

    async def _by_role(self) -> None:
        if self._replica is not None:
            await self._replica.run(self._was_switched)
        elif self._role.role == "home":
            while self._watch is None:
                await asyncio.sleep(self._peers.look_s)
                await self._start_watch(alone=self._alone or not self._rootless)
            self._role = await self._watch.run()
            self.role_changed.set()
        if self._role.role == "fenced":
            root = await self._root_of_home()
            assert root is not None, "only a root fences"
            self._role = await keep_aside(
                self._peers, self._role, self._catalog, root, self._role_file, self._folder
            )

    async def _was_switched(self) -> bool:
        """By a promotion, which is another process."""
        found = await asyncio.to_thread(current_role, self._role_file, self._home)
        if found.role == "replica":
            return False
        log.warning("role_changed", extra={"role": found.role, "why": found.why})
        self.role_changed.set()
        return True

    def _root_from_file(self, pinned: Path) -> TrustedRoot:
        content = read_pinned_root(pinned, "home.root")
        return TrustedRoot(self._folder / "root.json", content)

    async def _root_of_home(self) -> TrustedRoot | None:
        """From its own catalog; None where no keys were made yet."""
        kept = self._folder / "root.json"
        if kept.exists():  # its store may have lost the first one
            return TrustedRoot(kept, b"")
        first = await self._own_root(1)
        return None if first is None else TrustedRoot(kept, first)

    async def _own_root(self, version: int) -> bytes | None:
        """None where none was made. Raises `Unavailable` where it cannot be read: whoever has keys
        may have been succeeded.
        """
        try:
            file = await asyncio.to_thread(self._catalog.trust_file, "root", version)
        except Unknown:
            return None
        try:
            return await self._artifacts.read(file.sha256, ROOT_BYTES_MAX)
        except HybridgeError as error:
            raise Unavailable(f"{version}.root.json: {error}; restore it from a backup") from error
