"""The catalog: commands become entries of the log, and tables, in one transaction.

Synchronous and thread-safe; call it with `asyncio.to_thread`. Other processes may use the same
database at the same time. Each call raises `Unavailable` while the database is away.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import Connection

from cloud.registry.catalog import commands as k
from cloud.registry.catalog.bounds import check_actor, check_tree
from cloud.registry.catalog.chain import entry_after, verify_chain
from cloud.registry.catalog.changes import Change, Promoted
from cloud.registry.catalog.decide import decide
from cloud.registry.catalog.project import project
from cloud.registry.catalog.reading import ENTRIES_MAX, Reading
from cloud.registry.catalog.settings import CatalogSettings
from cloud.registry.documents import (
    Entry,
    Evaluation,
    Head,
    Model,
    ModelVersion,
    ReplicaState,
    Runner,
)
from cloud.registry.store import queries
from cloud.registry.store.database import RegistryDatabase
from cloud.registry.store.view import SqlView
from shared.errors import Conflict, Overloaded, TooLarge

_DEFAULT: Final = CatalogSettings()


@dataclass(frozen=True, slots=True)
class Applied:
    """`entries` is empty where all was as asked already. The documents are as they are now, those
    that the command is about.
    """

    entries: tuple[Entry, ...]
    model: Model | None = None
    version: ModelVersion | None = None
    evaluation: Evaluation | None = None


class Catalog(Reading):
    """Writes, beside what `Reading` reads. The database is open."""

    def __init__(self, database: RegistryDatabase, settings: CatalogSettings = _DEFAULT) -> None:
        super().__init__(database, settings)

    def apply(self, command: k.Command, actor: str, now: float) -> Applied:
        """Decide and write. `actor` is the caller's name, `now` Unix seconds.

        Raises `Malformed`, `TooLarge`, `Unknown`, `Conflict`, `Overloaded`; then nothing changed.
        """
        return self.apply_all((command,), actor, now)

    def apply_all(self, commands: Sequence[k.Command], actor: str, now: float) -> Applied:
        """All in order, or none; each sees what those before it changed. Raises as `apply`.

        The documents are those of the last command.
        """
        check_actor(actor)

        def change(connection: Connection) -> Applied:
            view = SqlView(connection)
            entries: list[Entry] = []
            applied = Applied(())
            for command in commands:
                made = [
                    self._enter(view, one, actor, now)
                    for one in decide(command, view, self._settings, actor, now)
                ]
                if isinstance(command, k.RenewEvaluation):
                    view.renew(command.evaluation_id, now + command.lease_s)
                entries += made
                applied = _outcome(command, made, view)
            return replace(applied, entries=tuple(entries))

        return self._database.write(change)

    def ingest(self, entries: Sequence[Entry]) -> Head:
        """Apply what the home region decided; entries that are here already are passed over.

        Raises `NotTrusted` for an altered entry, `Conflict` for a gap, a fork or a fallen epoch,
        `Malformed` for one that this program does not know, `TooLarge` for over `ENTRIES_MAX`;
        then none of them is taken.
        """
        if len(entries) > ENTRIES_MAX:
            raise TooLarge(f"{len(entries)} log entries at once; hand in {ENTRIES_MAX} at most")

        def change(connection: Connection) -> Head:
            view = SqlView(connection)
            head = view.head()
            new = [entry for entry in entries if entry.seq > head.seq]
            _check_known(connection, [entry for entry in entries if entry.seq <= head.seq])
            end = verify_chain(head, new)
            for entry in new:
                _write(view, entry)
            return end

        return self._database.write(change)

    def report_runner(self, runner: Runner) -> None:
        """Note what it says that it runs. Raises `Malformed`, `Overloaded`."""
        check_tree(runner.model_dump(mode="json"), "a runner's report")
        since = runner.seen_at - self._settings.running_ttl_s
        room = self._settings.runners_max
        if not self._database.write(lambda c: queries.keep_runner(c, runner, since, room)):
            raise Overloaded(f"{room} runners are known; raise runners_max")

    def report_replica(self, replica: ReplicaState) -> None:
        """Note what it says of itself. Raises `Malformed`, `Conflict`, `Overloaded`."""
        check_tree(replica.model_dump(mode="json", exclude={"running"}), "a replica's report")
        for runner in replica.running:
            check_tree(runner.model_dump(mode="json"), "a replica's report")
        since = replica.seen_at - self._settings.running_ttl_s
        room = self._settings.replicas_max
        if not self._database.write(lambda c: queries.keep_replica(c, replica, since, room)):
            raise Overloaded(f"{room} replicas are known; raise replicas_max")

    def _enter(self, view: SqlView, change: Change, actor: str, now: float) -> Entry:
        head = view.head()
        if head.seq >= self._settings.log_entries_max:
            raise Overloaded(f"the log has {head.seq} entries; raise log_entries_max")
        epoch = change.epoch if isinstance(change, Promoted) else head.epoch
        entry = entry_after(head, epoch, now, actor, change.kind, change.model_dump(mode="json"))
        _write(view, entry)
        return entry


def _write(view: SqlView, entry: Entry) -> None:
    rows = project(entry, view)
    view.append(entry)
    for row in rows:
        view.put(row, entry.seq)


def _check_known(connection: Connection, known: Sequence[Entry]) -> None:
    if not known:
        return
    first, last = min(one.seq for one in known), max(one.seq for one in known)
    here = {one.seq: one.sha256 for one in queries.log(connection, first - 1, last - first + 1)}
    for entry in known:
        if here[entry.seq] != entry.sha256:
            raise Conflict(f"log entry {entry.seq} is another one here: the logs have forked")


def _outcome(command: k.Command, made: Sequence[Entry], view: SqlView) -> Applied:
    """The documents that the command is about, as they are now."""
    match command:
        case k.SetModel():
            return Applied((), model=view.model(command.name))
        case k.Register():
            name, version = command.manifest.name, command.manifest.version
            queued = view.open_evaluations(name, version)
            return Applied(
                (), view.model(name), view.version(name, version), queued[0] if queued else None
            )
        case k.QueueEvaluation() | k.RenewEvaluation():
            evaluation = view.evaluation(command.evaluation_id)
        case k.ClaimEvaluation():
            claimed = [entry for entry in made if entry.kind == "evaluation.claimed"]
            evaluation = view.evaluation(str(claimed[-1].change["id"])) if claimed else None
        case k.EndEvaluation():
            evaluation = view.evaluation(command.evaluation.id)
        case k.Approve() | k.Reject() | k.Release() | k.Retire() | k.Delete():
            found = view.version(command.model, command.version)
            return Applied((), view.model(command.model), found)
        case k.AddDataSet() | k.AddDelta() | k.PublishTrust() | k.Promote():
            return Applied(())
    if evaluation is None:
        return Applied(())
    return Applied(
        (), view.model(evaluation.model), view.version(evaluation.model, evaluation.version),
        evaluation,
    )  # fmt: skip
