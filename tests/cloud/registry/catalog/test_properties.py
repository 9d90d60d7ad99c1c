"""What holds whatever anybody asks, in whatever order."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cloud.registry.catalog.chain import EMPTY, verify_chain
from cloud.registry.catalog.commands import (
    Approve,
    ClaimEvaluation,
    Command,
    Delete,
    QueueEvaluation,
    Reject,
    Release,
    Retire,
    SetModel,
)
from cloud.registry.catalog.memory_view import MemoryView
from cloud.registry.catalog.releases import KEPT
from cloud.registry.catalog.states import ENDS
from cloud.registry.catalog.verify import verify
from cloud.registry.documents import Gate, ModelVersion, State
from shared.errors import HybridgeError
from tests.cloud.registry.catalog.world import World, new_id, passed, register, trust

VERSIONS = st.sampled_from([f"1.{minor}.0" for minor in range(7)])


class CatalogMachine(RuleBasedStateMachine):
    """Asks for anything; what is refused must change nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(evaluations_open_max=4)
        self.world.do(SetModel("m", "ann", Gate(approval="rule")))
        self.before: dict[str, ModelVersion] = {}
        self.numbers: list[int] = []

    def do(self, command: Command) -> None:
        length, rows = len(self.world.log), dict(self.world.view.rows)
        try:
            self.world.do(command)
        except HybridgeError:
            assert len(self.world.log) == length
            assert self.world.view.rows == rows

    @rule(version=VERSIONS, parent=st.none() | VERSIONS, content=st.sampled_from(["", "other"]))
    def push(self, version: str, parent: str | None, content: str) -> None:
        self.do(register(version, parent=parent, content=content))

    @rule(version=VERSIONS)
    def evaluate(self, version: str) -> None:
        self.do(QueueEvaluation("m", version, new_id()))

    @rule(evaluator=st.sampled_from(["a", "b"]), lease_s=st.sampled_from([1.0, 60.0]))
    def claim(self, evaluator: str, lease_s: float) -> None:
        self.do(ClaimEvaluation(evaluator, lease_s))

    @rule(data=st.data(), state=st.sampled_from(["passed", "passed", "failed", "broken", "queued"]))
    def end(self, data: st.DataObject, state: str) -> None:
        known = [row for key, row in self.world.view.rows.items() if key[0] == "evaluation"]
        if known:
            self.do(passed(data.draw(st.sampled_from(known)), state=state))

    @rule(version=VERSIONS)
    def candidate(self, version: str) -> None:
        """The whole way up to it, so that the later states are reached often."""
        self.push(version, None, "")
        self.do(ClaimEvaluation("c", 1.0))
        for key, row in list(self.world.view.rows.items()):
            if key[0] == "evaluation" and row.state == "running":
                self.do(passed(row))

    @rule(version=VERSIONS)
    def approve(self, version: str) -> None:
        self.do(Approve("m", version, "good"))

    @rule(version=VERSIONS)
    def reject(self, version: str) -> None:
        self.do(Reject("m", version, "bad"))

    @rule(version=VERSIONS)
    def release(self, version: str) -> None:
        self.do(trust(newest := self.newest_trust + 1))
        self.do(Release("m", version, "go", newest))

    @rule(version=VERSIONS)
    def launch(self, version: str) -> None:
        self.candidate(version)
        self.release(version)

    @rule(version=VERSIONS)
    def retire(self, version: str) -> None:
        self.do(Retire("m", version, "bad", self.newest_trust))

    @rule(version=VERSIONS)
    def delete(self, version: str) -> None:
        launched = self.world.view.launched("m")
        current = self.world.model().current
        running = {one.version for one in self.world.view.runners}
        self.do(Delete("m", version, "no room"))
        found = self.world.view.version("m", version)
        if found and found.deleted and version not in self.gone:
            assert version not in running
            order = [one.version for one in launched]
            if current in order:
                at = order.index(current)
                assert version not in order[at : at + 1 + KEPT]

    @rule(version=VERSIONS)
    def run(self, version: str) -> None:
        self.world.runs(version)

    @rule()
    def stop_running(self) -> None:
        self.world.view.runners.clear()

    @rule(seconds=st.sampled_from([1.0, 61.0, 86_400.0, -86_400.0]))
    def wait(self, seconds: float) -> None:
        self.world.now += seconds

    @property
    def newest_trust(self) -> int:
        found = self.world.view.trust("model-m", None)
        return found.version if found is not None else 0

    @property
    def gone(self) -> set[str]:
        return {version for version, one in self.before.items() if one.deleted}

    @invariant()
    def the_current_release_is_the_newest_of_those_released(self) -> None:
        model = self.world.model()
        released = [
            one for one in self.world.view.launched("m") if one.state is State.RELEASED
        ]  # fmt: skip
        assert model.current == (released[0].version if released else None)
        numbers = sorted(n.number for one in self.world.view.launched("m") for n in one.launches)
        assert numbers == list(range(1, model.number + 1))

    @invariant()
    def what_was_registered_never_changes_and_ends_are_ends(self) -> None:
        now = {
            row.version: row
            for row in self.world.view.rows.values()
            if isinstance(row, ModelVersion)
        }
        for version, old in self.before.items():
            new = now[version]
            fixed = {"manifest", "files", "origin", "lineage", "card", "pushed_by", "pushed_at"}
            assert new.model_dump(include=fixed) == old.model_dump(include=fixed)
            assert new.launches[: len(old.launches)] == old.launches
            if old.state in ENDS:
                assert new.state is old.state
            if old.deleted:
                assert new.deleted
        self.before = now

    @invariant()
    def lineage_has_no_cycle(self) -> None:
        for version in self.before:
            seen, parent = {version}, self.before[version].origin.parent
            while parent is not None:
                assert parent not in seen
                seen.add(parent)
                parent = self.before[parent].origin.parent

    def teardown(self) -> None:
        log = self.world.log
        assert verify_chain(EMPTY, log) == self.world.view.head()
        replica = MemoryView()
        for entry in log:
            replica.append(entry)
        assert replica.rows == self.world.view.rows
        assert verify(log, self.world.view.rows.values()) == self.world.view.head()


TestCatalog = CatalogMachine.TestCase
TestCatalog.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
