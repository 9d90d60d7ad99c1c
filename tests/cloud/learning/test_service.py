"""The learning process with a real registry: a cycle over kill -9, and a person's words by HTTP."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from cloud.learning.config import load, parse
from cloud.store.evicting import Bounds
from cloud.store.feedback import FeedbackTable
from shared.bundle.writer import pack
from shared.errors import Malformed
from tests.cloud.feedback.world import row
from tests.cloud.keyed_process import ROOT, until
from tests.cloud.learning.loop.cycles import GOOD
from tests.cloud.learning.servers import CLOUD, EDGE, LearningProcess, LoopRegistry
from tests.cloud.registry.pushing import push

LOOP: dict[str, Any] = {
    "model": EDGE, "teacher": CLOUD, "asks": ["release"], "watch_s": 0, "replay_rows": 10,
    "triggers": {"samples_min": 100, "drift": False}, "teacher_gate": {"labelled_min": 20},
}  # fmt: skip


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LearningProcess]:
    """Without a registry. Nobody who has it leaves anything in it."""
    with LearningProcess(tmp_path_factory.mktemp("alone") / "learning") as running:
        yield running


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[LoopRegistry]:
    with LoopRegistry(tmp_path) as running:
        running.trust.publish(running, EDGE, CLOUD)
        running.released(tmp_path / "edge-1", EDGE, "1.0.0")
        running.released(tmp_path / "cloud-2", CLOUD, "2.0.0", approval="rule")
        yield running


@pytest.fixture
def learning(registry: LoopRegistry, tmp_path: Path) -> Iterator[LearningProcess]:
    asked = (
        f'[registry]\nurls = ["{registry.url}"]\napi_key_file = "{registry.loop_key}"\n'
        "registry_signs = true\n"
    )
    with LearningProcess(tmp_path / "learning", asked) as running:
        yield running


def write_samples(process: LearningProcess, count: int) -> None:
    """Of three devices and three classes; the edge is wrong about each."""
    table = FeedbackTable(process.feedback_url, Bounds(rows_max=10**6, bytes_max=10**9))
    table.open()
    table.write([
        row(number, device=f"cam-{number % 3}", label=number // 3 % 3,
            edge_label=(number // 3 + 1) % 3, at=time.time(), model=EDGE)
        for number in range(count)
    ])  # fmt: skip
    table.close()


def label_as_the_cloud(process: LearningProcess, count: int) -> None:
    found = process.get(f"/v1/feedback/samples?model={EDGE}&holdout=0.1&limit=500", "labeller")
    samples = found.json["samples"]
    assert len(samples) >= count
    for one in samples[:count]:
        path = f"/v1/feedback/samples/{one['device']}/{one['id']}/label"
        done = process.call("PUT", path, {"label": one["cloud_label"]}, "labeller")
        assert done.status == 200, done.body


def cycle(process: LearningProcess, name: str) -> dict[str, Any]:
    return dict(process.get(f"/v1/cycles/{name}").json)


def again(process: LearningProcess) -> None:
    process.kill()
    process.start()


@pytest.mark.slow
def test_a_cycle_over_kill_9_at_each_thing_it_waits_for(
    learning: LearningProcess, registry: LoopRegistry, tmp_path: Path
) -> None:
    write_samples(learning, 500)
    made = learning.call("PUT", f"/v1/loops/{EDGE}", LOOP, "approver")
    assert made.status == 200, made.body
    begun = learning.call("POST", f"/v1/loops/{EDGE}/begin", {"comment": "try"}, "approver")
    assert begun.status == 201, begun.body
    name = begun.json["id"]
    until(lambda: "20 more labels" in cycle(learning, name)["waits_for"])
    again(learning)
    label_as_the_cloud(learning, 25)
    until(lambda: cycle(learning, name)["job"] is not None)
    again(learning)
    job = learning.get(f"/v1/jobs/{cycle(learning, name)['job']}").json
    assert job["spec"]["recipe"]["student"] == f"{EDGE}@1.0.0"
    assert job["spec"]["recipe"]["version"] == "1.0.1"
    data_set = learning.get(f"/v1/data-sets/{name}").json
    assert (data_set["sha256"], data_set["number"]) == (job["spec"]["data_set"], 1)
    push(registry, tmp_path / "edge-2", "1.0.1", EDGE, scale=11.0)
    pack(tmp_path / "edge-2", tmp_path / "edge-2.hyb")
    learning.end_job(job["id"], GOOD, (tmp_path / "edge-2.hyb").read_bytes())
    until(lambda: cycle(learning, name)["phase"] != "training")
    again(learning)
    until(lambda: cycle(learning, name)["asks"] == "release")
    again(learning)
    assert registry.get(f"/v1/models/{EDGE}").json["current"] == "1.0.0"
    go = learning.call("POST", f"/v1/cycles/{name}/decide", {"verb": "go"}, "approver")
    assert go.status == 200, go.body
    until(lambda: cycle(learning, name)["phase"] == "done")
    assert registry.get(f"/v1/models/{EDGE}").json["current"] == "1.0.1"
    assert len(learning.get("/v1/jobs").json["jobs"]) == 1
    assert len(learning.get("/v1/data-sets").json["data_sets"]) == 1
    log = [one["words"] for one in learning.get(f"/v1/cycles/{name}/log").json["lines"]]
    assert log[0].startswith("begun by person: a-approver began it: try")
    assert log[-1].startswith("done")
    assert learning.stop() == 0


def test_words_of_people_over_http(alone: LearningProcess) -> None:
    learning = alone
    path = f"/v1/loops/{EDGE}"
    assert learning.call("PUT", path, LOOP, "trainer").status == 403
    assert learning.call("PUT", path, {**LOOP, "asks": ["lunch"]}, "approver").status == 400
    wrong = learning.call("PUT", "/v1/loops/other", LOOP, "approver")
    assert (wrong.status, "say the same" in wrong.json["detail"]) == (400, True)
    made = learning.call("PUT", path, LOOP, "approver", If_Match='"0"')
    assert (made.status, made.headers["etag"]) == (200, '"1"')
    assert learning.call("PUT", path, LOOP, "approver", If_Match='"0"').status == 409
    begun = learning.call("POST", path + "/begin", {}, "approver")
    name = begun.json["id"]
    assert learning.call("POST", path + "/begin", {}, "approver").status == 409
    assert learning.call("DELETE", path, None, "approver").status == 409
    decide = f"/v1/cycles/{name}/decide"
    early = learning.call("POST", decide, {"verb": "go"}, "approver")
    assert (early.status, "asks nobody" in early.json["detail"]) == (409, True)
    seen = cycle(learning, name)["revision"]
    moved = learning.get(f"/v1/cycles/{name}?revision={seen}&wait_s=0.1").json
    assert moved["id"] == name
    stopped = learning.call("POST", decide, {"verb": "stop", "comment": "enough"}, "approver")
    assert stopped.json["phase"] == "stopped"
    assert [one["id"] for one in learning.get(path + "/cycles").json["cycles"]] == [name]
    assert learning.get(path).json["last"]["id"] == name
    assert learning.get(f"/v1/cycles/{name}/log", None).status == 401
    assert learning.call("DELETE", path, None, "approver").status == 204
    assert learning.get(path).status == 404
    assert learning.get("/v1/cycles/no-such-1").status == 404
    refit = learning.get(f"{path}/refit")
    assert refit.status == 404
    check = learning.call("POST", f"/v1/checks/{CLOUD}", {}, "trainer")
    assert (check.status, "no sample" in check.json["detail"]) == (404, True)
    state = learning.get("/v1/learning").json
    assert (state["loops"], state["cycles_running"], state["jobs"]["queued"]) == (0, 0, 0)
    assert b"hybridge_learning_cycles_ended" in learning.get("/metrics").body
    assert "/v1/cycles/{cycle}/decide" in learning.get("/openapi.json").json["paths"]


def test_a_second_process_in_its_state_dir_is_refused(alone: LearningProcess) -> None:
    other = subprocess.run(
        [sys.executable, "-m", "cloud", "learning", "--config", str(alone.config),
         "--api-port", "0"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert other.returncode == 1
    assert "another learning process uses this state_dir" in other.stderr


def test_it_loads_no_torch() -> None:
    code = "import cloud.learning.service, sys; sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60, check=False)
    assert done.returncode == 0


def test_a_setting_that_is_wrong_is_named_with_its_file(tmp_path: Path) -> None:
    file = tmp_path / "learning.toml"
    file.write_text("[loops]\nlook_s = -1\n")
    with pytest.raises(Malformed, match=r"loops\.look_s"):
        load(file, {})
    with pytest.raises(Malformed, match="key"):
        parse({"api": {"host": "0.0.0.0"}}, "here")


def test_paths_count_from_the_files_folder(tmp_path: Path) -> None:
    file = tmp_path / "learning.toml"
    file.write_text(
        '[registry]\nurls = ["http://127.0.0.1:1"]\nroot = "1.root.json"\n'
        'api_key_file = "registry.key"\n[worker]\nbundles = ["models"]\n'
    )
    config = load(file, {})
    assert config.registry is not None
    assert config.registry.root == tmp_path / "1.root.json"
    assert config.worker.bundles == (tmp_path / "models",)
    assert config.training_url == f"sqlite:///{tmp_path / 'hybridge-learning' / 'learning.db'}"


def test_another_folder_on_the_same_database_does_not_drive_its_cycles_twice(
    alone: LearningProcess, tmp_path: Path
) -> None:
    url = f"sqlite:///{alone.state_dir / 'learning.db'}"
    other = LearningProcess(tmp_path / "other", f'[training]\nurl = "{url}"\n')
    with pytest.raises(AssertionError, match="another learning process uses its database"):
        other.start()
    assert alone.get("/v1/loops").status == 200


def test_nobody_acts_by_the_loops_own_name(alone: LearningProcess) -> None:
    bearer = f"Bearer {alone.loops_namesake}"
    for method, path, body in (
        ("POST", "/v1/data-sets/tiny-edge-1", {"model": EDGE}),
        ("POST", "/v1/jobs", {}),
        ("PUT", f"/v1/loops/{EDGE}", LOOP),
    ):
        done = alone.call(method, path, body, None, Authorization=bearer)
        assert done.status == 403, done.body
        assert "make a key of another name" in done.json["detail"]
    assert alone.call("GET", "/v1/loops", None, None, Authorization=bearer).status == 200


def test_a_data_set_that_a_job_or_a_cycle_has_yet_to_read_is_not_deleted(tmp_path: Path) -> None:
    with LearningProcess(tmp_path / "learning") as learning:
        write_samples(learning, 300)
        made = learning.call("POST", "/v1/data-sets/field", {"model": EDGE}, "trainer").json
        recipe = {
            "kind": "finetune", "version": "1.0.1", "student": f"{EDGE}@1.0.0", "base": "fashion-mnist",
        }  # fmt: skip
        spec = {"recipe": recipe, "data_set": made["sha256"]}
        job = learning.call("POST", "/v1/jobs", spec, "trainer")
        assert job.status in {200, 201}, job.body
        refused = learning.call("DELETE", "/v1/data-sets/field/1", None, "operator")
        assert (refused.status, job.json["id"] in refused.json["detail"]) == (409, True)
        cancelled = learning.call("POST", f"/v1/jobs/{job.json['id']}/cancel", {}, "trainer")
        assert cancelled.status == 200, cancelled.body
        assert learning.call("DELETE", "/v1/data-sets/field/1", None, "operator").status == 204
        asks = {**LOOP, "asks": ["train"], "teacher_gate": {"labelled_min": 0}}
        assert learning.call("PUT", f"/v1/loops/{EDGE}", asks, "approver").status == 200
        name = learning.call("POST", f"/v1/loops/{EDGE}/begin", {}, "approver").json["id"]
        until(lambda: cycle(learning, name)["asks"] == "train")
        refused = learning.call("DELETE", f"/v1/data-sets/{name}/1", None, "operator")
        assert (refused.status, name in refused.json["detail"]) == (409, True)
        stop = {"verb": "stop"}
        assert learning.call("POST", f"/v1/cycles/{name}/decide", stop, "approver").status == 200
        assert learning.call("DELETE", f"/v1/data-sets/{name}/1", None, "operator").status == 204


def broken(process: LearningProcess, table: str, where: str) -> None:
    """As another version of this process would leave it."""
    engine = sa.create_engine(f"sqlite:///{process.state_dir / 'learning.db'}")
    try:
        with engine.begin() as connection:
            change = sa.text(f"UPDATE {table} SET document = '[]' WHERE {where}")
            assert connection.execute(change).rowcount == 1
    finally:
        engine.dispose()


def test_a_cycle_of_another_version_hides_no_loop_and_is_given_up_with_its_own(
    alone: LearningProcess,
) -> None:
    path = "/v1/loops/upgraded"
    loop = {**LOOP, "model": "upgraded"}
    assert alone.call("PUT", path, loop, "approver").status == 200
    name = alone.call("POST", path + "/begin", {}, "approver").json["id"]
    broken(alone, "learning_cycles", f"id = '{name}'")
    shown = [one for one in alone.get("/v1/loops").json["loops"] if one["cycle"] is None]
    assert [one["unreadable"] for one in shown if one["settings"]["model"] == "upgraded"] == [name]
    assert alone.get(path).json["unreadable"] == name
    for answered in (
        alone.get(f"/v1/cycles/{name}"),
        alone.call("POST", f"/v1/cycles/{name}/decide", {"verb": "stop"}, "approver"),
    ):
        assert answered.status == 503
        assert "hybridge loop delete" in answered.json["detail"]
    assert alone.call("POST", path + "/begin", {}, "approver").status == 409
    changed = alone.call("PUT", path, {**loop, "watch_s": 9}, "approver", If_Match='"1"')
    assert (changed.status, changed.json["revision"]) == (200, 2)
    assert alone.get("/v1/learning").status == 200
    assert alone.call("DELETE", path, None, "approver", If_Match='"2"').status == 204
    assert alone.get(f"/v1/cycles/{name}").status == 404


def test_a_cycle_of_another_version_that_is_over_hides_no_loop(alone: LearningProcess) -> None:
    path = "/v1/loops/over"
    assert alone.call("PUT", path, {**LOOP, "model": "over"}, "approver").status == 200
    name = alone.call("POST", path + "/begin", {}, "approver").json["id"]
    alone.call("POST", f"/v1/cycles/{name}/decide", {"verb": "stop"}, "approver")
    broken(alone, "learning_cycles", f"id = '{name}'")
    assert "over" in [one["settings"]["model"] for one in alone.get("/v1/loops").json["loops"]]
    found = alone.get(path).json
    assert (found["cycle"], found["unreadable"], found["last"]) == (None, None, None)
    assert alone.call("DELETE", path, None, "approver").status == 204


def test_a_loop_of_another_version_is_set_anew(alone: LearningProcess) -> None:
    path = "/v1/loops/older"
    assert alone.call("PUT", path, {**LOOP, "model": "older"}, "approver").status == 200
    broken(alone, "learning_loops", "model = 'older'")
    answered = alone.get(path)
    assert (answered.status, "hybridge loop set" in answered.json["detail"]) == (503, True)
    again = alone.call("PUT", path, {**LOOP, "model": "older"}, "approver", If_Match='"0"')
    assert (again.status, again.json["revision"]) == (200, 2)
    assert alone.call("DELETE", path, None, "approver").status == 204
