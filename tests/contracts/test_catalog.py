"""The catalog's contract, on SQLite and on a real PostgreSQL: what is promised to who races."""

import multiprocessing
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from cloud.registry.catalog.catalog import Applied, Catalog
from cloud.registry.catalog.chain import EMPTY, canonical, hash_of, verify_chain
from cloud.registry.catalog.commands import (
    AddDataSet,
    AddDelta,
    Approve,
    ClaimEvaluation,
    Command,
    Delete,
    Promote,
    QueueEvaluation,
    Reject,
    Release,
    RenewEvaluation,
    Retire,
    SetModel,
)
from cloud.registry.catalog.reading import ENTRIES_MAX
from cloud.registry.catalog.settings import CatalogSettings
from cloud.registry.documents import DataSet, Delta, Evaluation, Gate, ReplicaState, Runner, State
from cloud.registry.store import schema
from cloud.registry.store.database import RegistryDatabase
from shared.bundle.manifest import Backbone
from shared.errors import (
    Conflict,
    HybridgeError,
    Malformed,
    NotTrusted,
    Overloaded,
    TooLarge,
    Unavailable,
    Unknown,
)
from tests.cloud.registry.catalog.world import (
    World,
    new_id,
    passed,
    register,
    sha256,
    stored,
    trust,
)

NOW = 1_700_000_000.0
GATE = Gate(approval="rule")
HOSTILE = ["", "a\x00b", "\ud800", "../x", "x" * 10_000, "%", "' OR 1=1", "\n"]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """An empty database, of each kind in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'registry.db'}"
    return request.getfixturevalue("postgres").new_database()


@contextmanager
def opened(url: str, **settings: Any) -> Iterator[Catalog]:
    database = RegistryDatabase(url)
    database.open()
    try:
        yield Catalog(database, CatalogSettings(**settings))
    finally:
        database.close()


@pytest.fixture
def catalog(url):
    with opened(url) as it:
        yield it


def released(catalog: Catalog, *versions: str) -> None:
    """Each the whole way to a release, in turn."""
    if not catalog.models():
        catalog.apply(SetModel("m", "ann", GATE), "ann", NOW)
    for version in versions:
        candidate(catalog, version)
        number = catalog.model("m").number + 1
        catalog.apply_all((trust(number), Release("m", version, "go", number)), "ann", NOW)


def candidate(catalog: Catalog, version: str = "1.0.0", **more: Any) -> Applied:
    catalog.apply(register(version, **more), "bob", NOW)
    claimed = catalog.apply(ClaimEvaluation("w", 60), "w", NOW).evaluation
    return catalog.apply(passed(claimed), "w", NOW)


def runner(
    version: str = "1.0.0", name: str = "dev-1", model: str = "m", at: float = NOW
) -> Runner:
    return Runner(name=name, model=model, version=version, variant="onnxruntime/int8", seen_at=at)


def replica(seq: int, *running: Runner, name: str = "eu", at: float = NOW) -> ReplicaState:
    return ReplicaState(
        name=name, url="https://eu", epoch=1, seq=seq, artifacts_missing=0, running=running,
        seen_at=at,
    )  # fmt: skip


def test_the_whole_way_of_a_version_is_read_back_as_it_went(catalog):
    released(catalog, "1.0.0", "1.1.0")
    assert [one.version for one in catalog.versions("m")] == ["1.0.0", "1.1.0"]
    assert catalog.model("m").current == "1.1.0"
    version = catalog.version("m", "1.1.0")
    assert (version.state, version.launches[0].number) == (State.RELEASED, 2)
    (evaluation,) = catalog.evaluations("m", "1.1.0")
    assert catalog.evaluation(evaluation.id) == evaluation
    assert evaluation.metrics == {"onnxruntime/int8": {"accuracy": 0.9}}
    assert [entry.kind for entry in catalog.history("m", "1.0.0")] == [
        "version.released", "evaluation.ended", "evaluation.claimed", "evaluation.queued",
        "version.registered",
    ]  # fmt: skip
    log = catalog.log(0, 1000)
    assert verify_chain(EMPTY, log) == catalog.head() == catalog.verify()
    assert [entry.actor for entry in log[:3]] == ["ann", "bob", "bob"]


def test_applied_carries_the_documents_that_the_command_is_about(catalog):
    made = catalog.apply(SetModel("m", "ann", GATE), "ann", NOW)
    assert (made.model.name, len(made.entries), made.version) == ("m", 1, None)
    command = register()
    made = catalog.apply(command, "bob", NOW)
    assert (made.version.version, made.evaluation.id, len(made.entries)) == (
        "1.0.0", command.evaluation_id, 2,
    )  # fmt: skip
    again = catalog.apply(register(), "bob", NOW)
    assert (again.entries, again.version) == ((), made.version)
    claimed = catalog.apply(ClaimEvaluation("w", 60), "w", NOW)
    assert (claimed.evaluation.evaluator, claimed.version.state) == ("w", State.EVALUATING)
    assert catalog.apply(ClaimEvaluation("w", 60), "w", NOW) == Applied(())
    ended = catalog.apply(passed(claimed.evaluation), "w", NOW)
    assert (ended.evaluation.state, ended.version.state) == ("passed", State.CANDIDATE)
    assert catalog.apply(Reject("m", "1.0.0", "bad"), "eve", NOW).version.state is State.REJECTED


def test_versions_rise_by_number_and_not_by_letter(catalog):
    catalog.apply(SetModel("m", "ann", GATE), "ann", NOW)
    for version in ("1.10.0", "1.9.0", "10.0.0", "2.0.0", "999999.999999.999999"):
        catalog.apply(register(version), "bob", NOW)
    assert [one.version for one in catalog.versions("m")] == [
        "1.9.0", "1.10.0", "2.0.0", "10.0.0", "999999.999999.999999",
    ]  # fmt: skip


def test_a_name_that_cannot_be_is_not_here_whatever_it_is(catalog):
    catalog.apply(SetModel("m", "ann", GATE), "ann", NOW)
    for name in HOSTILE:
        _look_for(catalog, name)
    assert catalog.head().seq == 1


def _look_for(catalog: Catalog, name: str) -> None:
    looks: list[Callable[[], object]] = [
        lambda: catalog.model(name),
        lambda: catalog.versions(name),
        lambda: catalog.version(name, "1.0.0"),
        lambda: catalog.version("m", name),
        lambda: catalog.evaluations("m", name),
        lambda: catalog.evaluation(name),
        lambda: catalog.data_set(name, None),
        lambda: catalog.trust_file(name, None),
        lambda: catalog.history(name),
        lambda: catalog.history("m", name),
        lambda: catalog.runners(name),
        lambda: catalog.apply(Approve(name, "1.0.0", "good"), "eve", NOW),
        lambda: catalog.apply(Approve("m", name, "good"), "eve", NOW),
        lambda: catalog.apply(QueueEvaluation("m", name, new_id()), "eve", NOW),
    ]
    for look in looks:
        with pytest.raises(Unknown) as refused:
            look()
        assert len(str(refused.value)) < 300
    assert catalog.deltas_to(name) == []
    with pytest.raises(Malformed):
        catalog.apply(SetModel(name, "ann", GATE), "ann", NOW)


def test_a_number_that_cannot_be_is_not_here(catalog):
    released(catalog, "1.0.0")
    for version in (0, -1, 2**31, 2**63, 2**200):
        for look in (catalog.trust_file, catalog.data_set):
            with pytest.raises(Unknown):
                look("root", version)
        with pytest.raises(Conflict, match="is not published"):
            catalog.apply(Retire("m", "1.0.0", "bad", version), "ann", NOW)


def test_a_caller_has_a_name_of_one_line(catalog):
    for actor in ("", "a\x00", "a\nb", "\ud800", "x" * 201):
        with pytest.raises(Malformed, match="caller's name"):
            catalog.apply(SetModel("m", "ann", GATE), actor, NOW)
    assert catalog.head() == EMPTY


def test_what_is_refused_leaves_nothing_and_what_goes_with_it_neither(catalog):
    catalog.apply(SetModel("m", "ann", GATE), "ann", NOW)
    before = catalog.head()
    with pytest.raises(Conflict, match="is trained"):
        catalog.apply_all((register(), trust(1), Release("m", "1.0.0", "go", 1)), "ann", NOW)
    assert catalog.head() == before
    assert catalog.versions("m") == []
    with pytest.raises(Unknown):
        catalog.trust_file("model-m", 1)
    assert catalog.verify() == before


# ---- races


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Results, or the errors that they ended in, of calls that start together."""
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        start.wait(30)
        try:
            return call()
        except HybridgeError as error:
            return error

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(run, calls))


def test_of_two_who_saw_the_same_revision_one_wins(url):
    with opened(url) as one, opened(url) as other:  # as two processes have them
        one.apply(SetModel("m", "ann", GATE), "ann", NOW)
        for round_ in range(20):
            seen = one.model("m").revision
            results = at_once(*(
                lambda catalog=catalog, owner=owner, seen=seen: catalog.apply(
                    SetModel("m", f"{owner}-{round_}", None, seen), owner, NOW
                )
                for catalog, owner in ((one, "bob"), (other, "eve"), (one, "zoe"))
            ))  # fmt: skip
            won = [result for result in results if isinstance(result, Applied)]
            lost = [result for result in results if isinstance(result, Conflict)]
            assert (len(won), len(lost)) == (1, 2), results
            assert one.model("m") == won[0].model
        assert one.verify().seq == 21


def test_of_a_veto_and_a_release_one_wins(url):
    with opened(url) as one, opened(url) as other:
        one.apply(SetModel("m", "ann", GATE), "ann", NOW)
        one.apply(trust(1), "ann", NOW)
        for version in ("1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0"):
            candidate(one, version)
            results = at_once(
                lambda version=version: one.apply(Release("m", version, "go", 1), "ann", NOW),
                lambda version=version: other.apply(Reject("m", version, "no"), "eve", NOW),
            )
            (won,) = [result for result in results if isinstance(result, Applied)]
            (lost,) = [result for result in results if isinstance(result, Conflict)]
            assert one.version("m", version) == won.version
            assert str(won.version.state) in str(lost)


def test_of_two_contents_for_one_version_one_is_registered(url):
    with opened(url) as one, opened(url) as other:
        one.apply(SetModel("m", "ann", GATE), "ann", NOW)
        results = at_once(
            lambda: one.apply(register(content="a"), "bob", NOW),
            lambda: other.apply(register(content="b"), "eve", NOW),
        )
        (won,) = [result for result in results if isinstance(result, Applied)]
        assert one.version("m", "1.0.0") == won.version


def _race(url: str, start: Any, evaluator: str, claims: Any) -> None:
    """A process that claims until nothing is left, and ends what it claimed."""
    with opened(url) as catalog:
        start.wait(60)
        while claimed := catalog.apply(ClaimEvaluation(evaluator, 60), evaluator, NOW).evaluation:
            claims.put((evaluator, claimed.id))
            catalog.apply(passed(claimed), evaluator, NOW)
        claims.put((evaluator, None))


def test_processes_that_race_for_evaluations_have_each_of_them_once(url):
    with opened(url) as catalog:
        catalog.apply(SetModel("m", "ann", GATE), "ann", NOW)
        catalog.apply_all([register(f"1.{n}.0") for n in range(40)], "bob", NOW)
        spawn = multiprocessing.get_context("spawn")
        start, claims = spawn.Barrier(2), spawn.Queue()
        racers = [spawn.Process(target=_race, args=(url, start, f"w{n}", claims)) for n in range(2)]
        for racer in racers:
            racer.start()
        seen: list[tuple[str, str | None]] = []
        while sum(evaluation is None for _, evaluation in seen) < 2:
            seen.append(claims.get(timeout=60))
        for racer in racers:
            racer.join(60)
            assert racer.exitcode == 0
        ids = [evaluation for _, evaluation in seen if evaluation is not None]
        assert len(ids) == len(set(ids)) == 40
        assert {one.state for one in catalog.versions("m")} == {State.CANDIDATE}
        assert catalog.verify().seq == 1 + 80 + 80


def test_writers_at_once_make_one_chain_and_each_is_told_of_its_own(url):
    with opened(url) as one, opened(url) as other:

        def write(number: int) -> Applied:
            catalog = (one, other)[number % 2]
            name = f"m{number}" if number % 5 else "NOT A NAME"
            return catalog.apply(SetModel(name, "ann", GATE), "ann", NOW)

        results = at_once(*(lambda number=number: write(number) for number in range(30)))
        for number, result in enumerate(results):
            if number % 5:
                assert result.model.name == f"m{number}"
            else:
                assert isinstance(result, Malformed)
        assert one.verify() == other.head()
        assert one.head().seq == 24


# ---- the log


def _write(catalog: Catalog, statement: Any) -> None:
    catalog._database.write(lambda connection: connection.execute(statement))


def test_a_line_of_the_log_is_neither_changed_nor_deleted(catalog):
    catalog.apply(SetModel("m", "ann", GATE), "ann", NOW)
    for statement in (
        sa.update(schema.log).values(actor="eve"),
        sa.delete(schema.log),
        sa.text("DELETE FROM registry_log WHERE seq = 1"),
    ):
        with pytest.raises(Unavailable, match="the log is append-only"):
            _write(catalog, statement)
    assert [entry.actor for entry in catalog.log(0, 10)] == ["ann"]


def test_postgresql_does_not_truncate_the_log_either(postgres):
    with opened(postgres.new_database()) as catalog:
        catalog.apply(SetModel("m", "ann", GATE), "ann", NOW)
        with pytest.raises(Unavailable, match="the log is append-only"):
            _write(catalog, sa.text("TRUNCATE registry_log"))


def _without_guard(catalog: Catalog, *statements: Any) -> None:
    """As who owns the database can."""

    def change(connection: sa.Connection) -> None:
        if connection.dialect.name == "sqlite":
            connection.execute(sa.text("DROP TRIGGER registry_log_no_UPDATE"))
            connection.execute(sa.text("DROP TRIGGER registry_log_no_DELETE"))
        else:
            connection.execute(sa.text("DROP TRIGGER registry_log_no_change ON registry_log"))
        for statement in statements:
            connection.execute(statement)

    catalog._database.write(change)


def test_an_edited_line_of_the_log_is_found(catalog):
    released(catalog, "1.0.0")
    found = catalog.log(1, 1)[0]
    _without_guard(catalog)
    edits = {
        "actor": "eve", "at": NOW + 1, "change": '{"model":"m"}', "kind": "version.approved",
        "previous": "1" * 64, "sha256": "1" * 64, "epoch": 2,
    }  # fmt: skip
    for column, value in edits.items():
        edit = sa.update(schema.log).where(schema.log.c.seq == 2)
        _write(catalog, edit.values({column: value}))
        with pytest.raises(NotTrusted, match="log entry 2"):
            catalog.verify()
        true = canonical(found.change).decode() if column == "change" else getattr(found, column)
        _write(catalog, edit.values({column: true}))
    assert catalog.verify() == catalog.head()


def test_an_edited_line_with_its_hash_made_anew_is_found_by_the_next(catalog):
    released(catalog, "1.0.0")
    forged = catalog.log(1, 1)[0].model_copy(update={"actor": "eve"})
    _without_guard(
        catalog,
        sa.update(schema.log).where(schema.log.c.seq == 2).values(
            actor="eve", sha256=hash_of(forged)
        ),
    )  # fmt: skip
    with pytest.raises(NotTrusted, match=r"log entry 3 follows another entry 2"):
        catalog.verify()


def test_a_deleted_line_of_the_log_is_found(catalog):
    released(catalog, "1.0.0")
    _without_guard(catalog, sa.delete(schema.log).where(schema.log.c.seq == 3))
    with pytest.raises(NotTrusted, match="entries between are missing"):
        catalog.verify()


def test_an_end_cut_off_the_log_is_found_by_the_tables(catalog):
    released(catalog, "1.0.0")
    last = catalog.head().seq
    _without_guard(catalog, sa.delete(schema.log).where(schema.log.c.seq == last))
    with pytest.raises(NotTrusted, match="in the tables is not what the log says"):
        catalog.verify()


def test_an_edited_row_of_the_tables_is_found(catalog):
    released(catalog, "1.0.0", "1.1.0")
    document = catalog.version("m", "1.0.0").model_copy(update={"state": State.RETIRED})
    where = schema.versions.c.version == "1.0.0"
    _write(
        catalog, sa.update(schema.versions).where(where).values(document=document.model_dump_json())
    )
    with pytest.raises(NotTrusted, match=r"version m 1000000000000 in the tables is not what"):
        catalog.verify()


def test_a_row_that_no_entry_made_is_found(catalog):
    released(catalog, "1.0.0")
    document = trust(9).file
    _write(
        catalog,
        sa.insert(schema.trust).values(
            role="model-m", version=9,
            document=f'{{"role":"model-m","version":9,"file":{document.model_dump_json()}}}',
        ),
    )  # fmt: skip
    with pytest.raises(NotTrusted, match="trust model-m 9 in the tables is in no log entry"):
        catalog.verify()


def test_entries_are_in_order_whatever_the_clock_says(catalog):
    times = [NOW, NOW - 86_400, NOW + 86_400, NOW]
    for number, now in enumerate(times):
        catalog.apply(SetModel(f"m{number}", "ann", GATE), "ann", now)
    assert [(entry.seq, entry.at) for entry in catalog.log(0, 100)] == list(enumerate(times, 1))
    assert catalog.verify().seq == catalog.head().seq


def test_the_log_is_read_in_bounded_pieces(catalog):
    catalog.apply_all([SetModel(f"m{n}", "ann", GATE) for n in range(7)], "ann", NOW)
    assert [entry.seq for entry in catalog.log(2, 3)] == [3, 4, 5]
    assert catalog.log(7, 10) == []
    assert len(catalog.log(0, 10**12)) == 7
    assert catalog.log(2**80, 1) == []
    assert len(catalog.log(-(2**80), 1)) == 1
    with pytest.raises(Malformed, match="limit is 0"):
        catalog.log(0, 0)


def test_the_log_is_bounded(url):
    with opened(url, log_entries_max=2) as catalog:
        catalog.apply_all([SetModel(f"m{n}", "ann", GATE) for n in range(2)], "ann", NOW)
        with pytest.raises(Overloaded, match="raise log_entries_max"):
            catalog.apply(SetModel("n", "ann", GATE), "ann", NOW)


# ---- replication


@pytest.fixture
def home(tmp_path):
    """Another region's log, a busy one."""
    with opened(f"sqlite:///{tmp_path / 'home.db'}") as it:
        released(it, "1.0.0", "1.1.0", "1.2.0", "1.3.0")
        it.apply(_data_set(1), "bob", NOW)
        it.apply(_delta("a", "b"), "ann", NOW)
        yield it


def test_a_replica_comes_to_what_its_home_is(catalog, home):
    log = home.log(0, 1000)
    for at in range(0, len(log), 7):
        catalog.ingest(log[at : at + 7])
    assert catalog.head() == home.head() == catalog.verify()
    assert catalog.models() == home.models()
    assert catalog.versions("m") == home.versions("m")
    assert catalog.evaluations("m", "1.3.0") == home.evaluations("m", "1.3.0")
    assert catalog.data_sets() == home.data_sets()
    assert catalog.trust_files() == home.trust_files()
    assert catalog.needed_artifacts() == home.needed_artifacts()


def test_entries_that_are_here_already_are_passed_over(catalog, home):
    log = home.log(0, 1000)
    catalog.ingest(log[:10])
    assert catalog.ingest(log[:10]).seq == 10
    assert catalog.ingest(log[5:15]).seq == 15
    assert catalog.ingest([]).seq == 15
    assert catalog.verify().seq == 15


def test_a_gap_a_fork_and_an_altered_entry_are_refused_whole(catalog, home, tmp_path):
    log = home.log(0, 1000)
    catalog.ingest(log[:10])
    before = catalog.head()
    with pytest.raises(Conflict, match="entries between are missing"):
        catalog.ingest([*log[10:12], *log[13:]])
    with pytest.raises(NotTrusted, match="was altered"):
        catalog.ingest([*log[10:12], log[12].model_copy(update={"actor": "eve"})])
    with opened(f"sqlite:///{tmp_path / 'other.db'}") as other:
        other.ingest(log[:8])
        other.apply_all([SetModel(f"n{n}", "eve", GATE) for n in range(8)], "eve", NOW)
        forked = other.log(0, 1000)
        with pytest.raises(Conflict, match="log entry 9 is another one here"):
            catalog.ingest(forked)
        with pytest.raises(Conflict, match="log entry 11 follows another entry 10"):
            catalog.ingest(forked[10:])
    assert catalog.head() == before


def test_a_lower_epoch_is_refused_and_a_higher_one_begins_with_a_promotion(catalog, home, tmp_path):
    log = home.log(0, 1000)
    catalog.ingest(log[:10])
    made = catalog.apply(Promote(2, "the home burnt down"), "ann", NOW)
    assert (made.entries[0].epoch, catalog.head().epoch) == (2, 2)
    with pytest.raises(Conflict, match="forked"):
        catalog.ingest(log[10:])
    with opened(f"sqlite:///{tmp_path / 'other.db'}") as other:
        other.ingest(catalog.log(0, 100))
        assert other.head() == catalog.head()


def test_an_entry_of_a_newer_program_is_refused_in_words(catalog, home):
    catalog.ingest(home.log(0, 2))
    entry = home.log(2, 1)[0].model_copy(update={"kind": "version.praised"})
    entry = entry.model_copy(update={"sha256": hash_of(entry)})
    with pytest.raises(Malformed, match=r"'version\.praised', which this program does not know"):
        catalog.ingest([entry])
    assert catalog.head().seq == 2


def test_what_is_ingested_at_once_is_bounded(catalog, home):
    with pytest.raises(TooLarge, match="hand in"):
        catalog.ingest(home.log(0, 1) * (ENTRIES_MAX + 1))


# ---- evaluations


def test_a_renewed_claim_is_not_taken_over_and_is_when_the_renewal_ends(catalog):
    catalog.apply(SetModel("m", "ann", GATE), "ann", NOW)
    catalog.apply(register(), "bob", NOW)
    claimed = catalog.apply(ClaimEvaluation("a", 60), "a", NOW).evaluation
    renewed = catalog.apply(RenewEvaluation(claimed.id, "a", 1, 60), "a", NOW + 50)
    assert (renewed.entries, renewed.evaluation.id) == ((), claimed.id)
    assert catalog.apply(ClaimEvaluation("b", 60), "b", NOW + 100).evaluation is None
    taken = catalog.apply(ClaimEvaluation("b", 60), "b", NOW + 111).evaluation
    assert (taken.id, taken.attempts) == (claimed.id, 2)
    with pytest.raises(Conflict, match="taken over by b"):
        catalog.apply(RenewEvaluation(claimed.id, "a", 1, 60), "a", NOW + 112)
    assert catalog.verify() == catalog.head()


# ---- runners, replicas and what is kept for them


def test_a_version_that_runs_anywhere_is_not_deleted(catalog):
    released(catalog, "1.0.0", "1.1.0", "1.2.0", "1.3.0")
    catalog.report_runner(runner(name="dev-1"))
    catalog.report_runner(runner(name="dev-2", version="1.3.0"))
    catalog.report_replica(replica(1, runner(name="dev-3"), runner("1.2.0", "dev-4")))
    with pytest.raises(Conflict, match=r"still run by dev-1, dev-3 \(at eu\); move them first"):
        catalog.apply(Delete("m", "1.0.0", "no room"), "ann", NOW)
    catalog.report_runner(runner(name="dev-1", version="1.3.0"))
    with pytest.raises(Conflict, match=r"still run by dev-3 \(at eu\)"):
        catalog.apply(Delete("m", "1.0.0", "no room"), "ann", NOW)
    later = NOW + 31 * 86_400
    catalog.report_replica(replica(1, runner(name="dev-3"), at=later))
    catalog.apply(Delete("m", "1.0.0", "no room"), "ann", later)
    assert catalog.version("m", "1.0.0").deleted


def test_a_runner_that_runs_two_models_is_on_both_lists(catalog):
    catalog.report_runner(runner())
    catalog.report_runner(runner(model="n"))
    catalog.report_runner(runner("1.1.0", at=NOW + 1))
    assert [(one.model, one.version) for one in catalog.runners()] == [
        ("m", "1.1.0"), ("n", "1.0.0"),
    ]  # fmt: skip
    assert [one.version for one in catalog.runners("m")] == ["1.1.0"]


def test_runners_are_bounded_and_those_long_gone_make_room(url):
    with opened(url, runners_max=2) as catalog:
        catalog.report_runner(runner(name="a"))
        catalog.report_runner(runner(name="b", at=NOW + 40 * 86_400))
        catalog.report_runner(runner("1.1.0", name="a"))
        catalog.report_runner(runner(name="c", at=NOW + 41 * 86_400))
        assert [one.name for one in catalog.runners()] == ["b", "c"]
        with pytest.raises(Overloaded, match="raise runners_max"):
            catalog.report_runner(runner(name="d", at=NOW + 42 * 86_400))


def test_replicas_are_bounded(url):
    with opened(url, replicas_max=1) as catalog:
        catalog.report_replica(replica(1))
        catalog.report_replica(replica(2))
        assert [one.seq for one in catalog.replicas()] == [2]
        with pytest.raises(Overloaded, match="raise replicas_max"):
            catalog.report_replica(replica(1, name="us"))


def test_a_report_is_text(catalog):
    for text in ("a\x00b", "\x1b[2J"):
        bad = runner().model_copy(update={"state": text})
        for report in (
            lambda bad=bad: catalog.report_runner(bad),
            lambda bad=bad: catalog.report_replica(replica(1, bad)),
            lambda text=text: catalog.report_replica(
                replica(1).model_copy(update={"url": text})
            ),
        ):  # fmt: skip
            with pytest.raises(Malformed, match="control character"):
                report()
    assert (catalog.runners(), catalog.replicas()) == ([], [])


def test_what_versions_data_sets_reports_deltas_and_trust_need_is_kept(catalog):
    catalog.apply(SetModel("m", "ann", GATE), "ann", NOW)
    catalog.apply(register("1.0.0"), "bob", NOW)
    claimed = catalog.apply(ClaimEvaluation("w", 60), "w", NOW).evaluation
    report = {"report_json": sha256("json"), "report_html": sha256("html")}
    catalog.apply(passed(claimed, **report), "w", NOW)
    candidate(catalog, "1.1.0")
    old, new = (_graph(catalog, version) for version in ("1.0.0", "1.1.0"))
    catalog.apply_all(
        [
            AddDelta(Delta(from_sha256=old, to_sha256=new, sha256=sha256("d"), bytes=1)),
            AddDelta(Delta(from_sha256=sha256("?"), to_sha256=new, sha256=sha256("e"), bytes=1)),
            _data_set(1),
            *(trust(n) for n in range(1, 4)),
            *(replace(trust(n), role="timestamp", file=_timestamp(n)) for n in range(1, 13)),
        ],
        "ann", NOW,
    )  # fmt: skip
    assert {delta.sha256 for delta in catalog.deltas_to(new)} == {sha256("d"), sha256("e")}
    needed = catalog.needed_artifacts()
    for version in catalog.versions("m"):
        assert {version.manifest.sha256, *(one.sha256 for one in version.files)} <= needed
    assert {sha256("json"), sha256("html"), sha256("rows"), sha256("d")} <= needed
    assert sha256("e") not in needed
    assert {trust(n).file.sha256 for n in range(1, 4)} <= needed
    assert {_timestamp(n).sha256 for n in range(3, 13)} <= needed
    assert not {_timestamp(n).sha256 for n in (1, 2)} & needed
    catalog.apply(Reject("m", "1.0.0", "bad"), "eve", NOW)
    assert catalog.needed_artifacts() == needed
    catalog.apply(Delete("m", "1.0.0", "no room"), "ann", NOW)
    assert needed - catalog.needed_artifacts() == {
        old, sha256("json"), sha256("html"), sha256("d"),
        catalog.version("m", "1.0.0").manifest.sha256,
    }  # fmt: skip


def test_what_a_replica_has_yet_to_copy_is_kept(catalog):
    catalog.apply(SetModel("m", "ann", GATE), "ann", NOW)
    candidate(catalog)
    catalog.report_replica(replica(2))
    catalog.report_replica(replica(100, name="us"))
    catalog.apply(Reject("m", "1.0.0", "bad"), "eve", NOW)
    catalog.apply(Delete("m", "1.0.0", "no room"), "ann", NOW)
    graph = _graph(catalog, "1.0.0")
    assert graph in catalog.needed_artifacts()
    assert graph in catalog.needed_artifacts(NOW + 29 * 86_400)
    assert graph not in catalog.needed_artifacts(NOW + 31 * 86_400)
    catalog.report_replica(replica(catalog.head().seq))
    assert graph not in catalog.needed_artifacts()


def _graph(catalog: Catalog, version: str) -> str:
    (found,) = [
        one.sha256 for one in catalog.version("m", version).files if one.path == "model.onnx"
    ]
    return found


def _timestamp(version: int) -> Any:
    return stored("timestamp.json", f"timestamp {version}")


def _data_set(version: int) -> AddDataSet:
    file = stored("e.npz", "rows" if version == 1 else f"rows {version}")
    return AddDataSet(
        DataSet(name="eval", version=version, file=file, rows=3, pushed_by="x", pushed_at=0.0)
    )


def _delta(old: str, new: str) -> AddDelta:
    return AddDelta(
        Delta(from_sha256=sha256(old), to_sha256=sha256(new), sha256=sha256(old + new), bytes=1)
    )


# ---- the same decisions on every store


def _any_commands(rng: random.Random, world: World) -> list[Command]:
    """What somebody may ask next; often what leads on, so that late states are reached."""
    version = f"1.{rng.randrange(8)}.0"
    known = [row for row in world.view.rows.values() if isinstance(row, Evaluation)]
    running = [one for one in known if one.state == "running"]
    newest = world.view.trust("model-m", None)
    signed = newest.version if newest is not None else 0
    launch = [trust(signed + 1), Release("m", version, "go", signed + 1)]
    states = ("passed", "passed", "failed", "broken", "queued")
    return rng.choice([
        [register(version, parent=rng.choice([None, "1.0.0", version]))],
        [register("1.0.0", "head", backbone=Backbone(name="m", version=version))],
        [register(version), ClaimEvaluation("a", 60.0)],
        [ClaimEvaluation(rng.choice("ab"), rng.choice([1.0, 60.0]))],
        [passed(one) for one in running],
        [passed(one, state=rng.choice(states)) for one in rng.sample(known, min(2, len(known)))],
        [QueueEvaluation("m", version, new_id())],
        [Approve("m", version, "good")],
        [Reject(rng.choice(["m", "head"]), version, "bad")],
        launch,
        launch,
        launch[1:],
        [Retire("m", version, "no", signed)],
        [Delete(rng.choice(["m", "head"]), f"1.{n}.0", "no room") for n in range(4)],
        [_data_set(rng.randrange(1, 4))],
        [_delta(rng.choice("abc"), rng.choice("abc"))],
        [SetModel(rng.choice(["m", "head", "n"]), None, GATE)],
    ])  # fmt: skip


@pytest.mark.parametrize("seed", [7, 16])
def test_the_database_decides_as_the_memory_does(url, seed):
    rng = random.Random(seed)
    world = World(deltas_max=2)
    with opened(url, deltas_max=2) as catalog:
        outcomes = _drive(rng, world, catalog)
        assert catalog.verify() == world.view.head()
    whatever = {"Release", "Retire", "Delete", "Reject", "EndEvaluation", "Register", "AddDelta"}
    assert whatever | {f"{name} refused" for name in whatever} <= outcomes


def _drive(rng: random.Random, world: World, catalog: Catalog) -> set[str]:
    outcomes: set[str] = set()
    for name in ("m", "head"):
        world.do(SetModel(name, "ann", GATE))
        catalog.apply(SetModel(name, "ann", GATE), "ann", world.now)
    for _ in range(120):
        world.now += rng.choice([0.0, 1.0, 61.0, -86_400.0, 86_400.0])
        if rng.random() < 0.1:
            world.view.runners.clear()
            world.runs(f"1.{rng.randrange(8)}.0", "dev")
            catalog.report_runner(world.view.runners[-1])
        for command in _any_commands(rng, world):
            expected = _outcome(world.do, command)
            assert _outcome(
                lambda one: list(catalog.apply(one, "ann", world.now).entries), command
            ) == expected, command  # fmt: skip
            refused = isinstance(expected, tuple)
            outcomes.add(type(command).__name__ + (" refused" if refused else ""))
    return outcomes


def _outcome(do: Callable[[Command], object], command: Command) -> object:
    try:
        return do(command)
    except HybridgeError as error:
        return type(error), str(error)
