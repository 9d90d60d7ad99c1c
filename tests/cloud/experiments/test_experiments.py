"""Two versions of one model over HTTP, by either lane, and by MQTT; their figures side by side."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from cloud.cli.__main__ import app
from cloud.config import parse
from cloud.experiments.experiments import Experiments
from cloud.experiments.placing import arm_at, position
from cloud.experiments.report import ExperimentReport, Reports, reports, together
from cloud.experiments.settings import Experiment
from cloud.serving.served import Served
from shared.errors import Malformed, Unavailable
from shared.ids import device_id
from shared.topics import answers, escalations
from shared.wire.envelope import CloudAnswer, pack_escalation
from tests.cloud.api.servers import LANES, MODEL, Running, server, tensor
from tests.cloud.ingest.test_inbox import Bench, play, settled
from tests.cloud.samples import escalation
from tests.tiny_bundle import write_tiny_bundle

ARMS = [{"version": "1.0.0", "share": 0.5}, {"version": "2.0.0", "share": 0.5}]


def experiment(model: str = MODEL, **changes: object) -> Experiment:
    return Experiment.model_validate({"name": "next", "model": model, "arms": ARMS, **changes})


def units(arm: int, count: int) -> list[str]:
    found = (f"u{n}" for n in range(1000))
    return [u for u in found if arm_at((0.5, 0.5), position("next", u)) == arm][:count]


@pytest.fixture(scope="module", params=LANES)
def tiny(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("experiment")
    other = folder / "other"
    write_tiny_bundle(other, name=MODEL, version="2.0.0", escalates=False, shift=2)
    with server(folder, request.param, more=[other], experiments=[experiment()]) as running:
        yield running


def report(running: Running) -> ExperimentReport:
    (one,) = Reports.model_validate_json(running.get("/v1/experiments").body).experiments
    return one


def version_for(running: Running, **headers: str) -> str:
    answer = running.infer({"inputs": [tensor(10)]}, **headers)
    assert answer.status == 200, answer.body
    return str(answer.json["model_version"])


def test_a_user_keeps_the_version_whatever_the_request(tiny: Running) -> None:
    before = report(tiny)
    for arm, version in ((0, "1.0.0"), (1, "2.0.0")):
        for unit in units(arm, 4):
            assert {version_for(tiny, Hybridge_Unit=unit) for _ in range(2)} == {version}
    after = report(tiny)
    for was, now in zip(before.arms, after.arms, strict=True):
        assert (now.calls - was.calls, now.rows - was.rows) == (8, 8)
        assert now.confidence is not None
        assert 0 < now.confidence <= 1
        assert now.p50_ms is not None
    sample = 'hybridge_experiment_calls_total{experiment="next",version="2.0.0"}'
    assert tiny.counted(sample) == after.arms[1].calls


def test_who_names_nobody_gets_the_models_own_version(tiny: Running) -> None:
    before = report(tiny).unplaced
    assert version_for(tiny) == "2.0.0"  # the newest one
    assert report(tiny).unplaced == before + 1


def test_who_names_a_version_gets_that_one_and_is_in_no_arm(tiny: Running) -> None:
    before = report(tiny)
    path = f"/v2/models/{MODEL}/versions/1.0.0/infer"
    answer = tiny.infer({"inputs": [tensor(10)]}, path, Hybridge_Unit=units(1, 1)[0])
    assert answer.json["model_version"] == "1.0.0"
    assert report(tiny) == before


def test_a_unit_that_is_no_name_is_refused(tiny: Running) -> None:
    answer = tiny.infer({"inputs": [tensor(10)]}, Hybridge_Unit="x" * 129)
    assert answer.status == 400
    assert "Hybridge-Unit: send 1 to 128 printable characters" in answer.json["detail"]


def test_what_an_arm_does_not_answer_is_counted_there(tiny: Running) -> None:
    before = report(tiny).arms[1].failed
    answer = tiny.infer({"inputs": [tensor(10, n_of=3)]}, Hybridge_Unit=units(1, 1)[0])
    assert answer.status == 400
    assert report(tiny).arms[1].failed == before + 1


def test_the_command_shows_arms_side_by_side(tiny: Running) -> None:
    version_for(tiny, Hybridge_Unit=units(1, 1)[0])
    shown = CliRunner().invoke(app, ["experiment", "show", "--url", tiny.url])
    assert shown.exit_code == 0, shown.output
    (line,) = [one for one in shown.output.splitlines() if "calls" in one and "│" in one]
    calls = [int(cell.strip()) for cell in line.split("│")[2:4]]
    assert calls == [arm.calls for arm in report(tiny).arms]
    none = CliRunner().invoke(app, ["experiment", "show", "nxt", "--url", tiny.url])
    assert isinstance(none.exception, Exception)
    assert "no experiment 'nxt'" in str(none.exception)


def test_escalations_are_placed_by_device(tmp_path: Path) -> None:
    async def scenario(bench: Bench) -> None:
        for unit in units(0, 2) + units(1, 2):
            topic = escalations(device_id(unit))
            bench.inbox.take(bench.link.raw(unit, topic, pack_escalation(escalation())))
        await settled(lambda: len(bench.link.acked) == 4)

    bench = play(Bench(tmp_path, experiments=[experiment("tiny-cloud")]), scenario)
    said = dict(bench.link.sent)
    for arm, version in ((0, "1.0.0"), (1, "2.0.0")):
        for unit in units(arm, 2):
            answer = said[answers(device_id(unit))]
            assert isinstance(answer, CloudAnswer)
            assert answer.model_version == version
    (found,) = reports(bench.experiments.running).experiments
    assert [arm.escalations for arm in found.arms] == [2, 2]


def test_an_arm_whose_version_is_not_there_leaves_the_call_to_the_models_own() -> None:
    def find(_model: str, version: str | None) -> Served:
        raise Unavailable(f"{version} is being loaded")

    experiments = Experiments([experiment()], find)
    assert experiments.place(MODEL, units(1, 1)[0]) is None
    assert [arm.fell_back for arm in experiments.running[0].arms] == [0, 1]
    assert experiments.place("another", "u1") is None


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"arms": [{"version": "1.0.0", "share": 0.5}, {"version": "2.0.0", "share": 0.4}]},
         "shares of its arms are 0.9 in sum"),
        ({"arms": [ARMS[0], ARMS[0]]}, "two arms have the same version"),
        ({"arms": ARMS[:1]}, "at least 2"),
    ],
)  # fmt: skip
def test_arms_that_make_no_experiment(changes: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        experiment(**changes)


def test_two_experiments_of_one_model() -> None:
    one = experiment().model_dump()
    tree = {"models": [{"bundle": "x"}], "experiments": [one, {**one, "name": "other"}]}
    with pytest.raises(Malformed, match="experiments: two have the same model"):
        parse(tree, "test")


def test_processes_add_up() -> None:
    experiments = Experiments([experiment()], lambda _model, _version: pytest.fail("not asked"))
    for arm, calls in zip(experiments.running[0].arms, (3, 5), strict=True):
        arm.calls, arm.rows, arm.confidence_sum = calls, calls, calls * 0.5
        arm.time.counts[4] = calls
    own = reports(experiments.running)
    (both,) = together(own, [own]).experiments
    assert [arm.calls for arm in both.arms] == [6, 10]
    assert [arm.confidence for arm in both.arms] == [0.5, 0.5]
    assert [arm.p95_ms for arm in both.arms] == [2.5, 2.5]
    assert together(own, []) == own
