"""From samples to a data set, a job and a loop, against a real learning process and a real worker."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.cloud.cli.own_learning import ROWS, OwnLearning, own_learning
from tests.cloud.keyed_process import until

LABELS = ("--labels", "bag,coat,dress")


@pytest.fixture(scope="module")
def region(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnLearning]:
    with own_learning(tmp_path_factory.mktemp("learning")) as running:
        yield running


def test_samples_are_seen_and_labelled_by_whom_may(region: OwnLearning, tmp_path: Path) -> None:
    assert region.found("viewer", "feedback", "status")["rows"] == ROWS
    said = region.run("viewer", "feedback", "list")
    assert (said.code, "labeller" in said.err) == (1, True)
    found = region.found(
        "labeller", "feedback", "list", "--device", "cam-1", "--since", "2026-05-04"
    )
    assert {one["device"] for one in found} == {"cam-1"}
    assert len(region.found("labeller", "feedback", "list", "--limit", "7")) == 7
    sure = region.found("labeller", "feedback", "list", "--unsure", "0.6")
    assert sure == []  # the cloud is 70% sure of each
    held = region.found("labeller", "feedback", "list", "--unlabelled", "--holdout")
    most = region.found("labeller", "feedback", "list", "--holdout-share", "50%")
    ids = [{one["id"] for one in some} for some in (held, most)]
    assert ids[0] < ids[1]
    assert len(ids[1]) < ROWS
    device, sample = found[0]["device"], found[0]["id"]
    label = ("feedback", "label", device, sample, "dress", *LABELS, "-m", "long")
    assert region.found("labeller", *label)["label_source"] == "person"
    rest = region.found("labeller", "feedback", "list", "--unlabelled")
    assert sample not in {one["id"] for one in rest}
    assert region.found("labeller", "feedback", "unlabel", device, sample)["labels"] == []
    for name, magic in (("a.png", b"\x89PNG"), ("a.npy", b"\x93NUMPY")):
        file = tmp_path / name
        region.found("labeller", "feedback", "image", device, sample, "--out", file)
        assert file.read_bytes().startswith(magic)
    said = region.run("labeller", "feedback", "show", device, sample.replace("-", "+"))
    assert (said.code, "a sample's id" in said.err) == (1, True)


def test_a_data_set_is_planned_built_once_fetched_and_deleted(
    region: OwnLearning, tmp_path: Path
) -> None:
    options = ("--model", "tiny-edge", "--holdout", "20%", "--half-life", "7d")
    plan = region.found("trainer", "feedback", "data-set", "plan", *options)
    assert (plan["rows"], plan["refused"]) == (ROWS, "")
    made = region.found("trainer", "feedback", "data-set", "build", "field", *options)
    again = region.found("trainer", "feedback", "data-set", "build", "field", *options)
    assert (made["number"], again) == (1, made)
    file = tmp_path / "field.npz"
    region.found("trainer", "feedback", "data-set", "get", "field", "--out", file)
    with np.load(file, allow_pickle=False) as arrays:
        assert len(arrays["labels"]) == ROWS
    said = region.run("trainer", "feedback", "data-set", "plan", "--model", "tiny-egde")
    assert (said.code, "would be refused" in said.out) == (1, True)
    said = region.run("trainer", "feedback", "data-set", "build", "x", "--model", "tiny-egde")
    assert (said.code, "wait for more samples" in said.err) == (4, True)
    assert region.run("operator", "feedback", "data-set", "delete", "field", "1", "--yes").code == 0
    assert region.found("viewer", "feedback", "data-set", "list") == []


def test_samples_of_a_device_are_deleted(region: OwnLearning) -> None:
    options = ("feedback", "delete", "--device", "cam-3", "-m", "asked to")
    assert region.found("trainer", *options, "--dry-run")["rows"] == ROWS // 4
    assert region.found("operator", *options, "--dry-run")["rows"] is None  # it may not look
    assert region.found("operator", *options, "--yes")["rows"] == ROWS // 4
    assert region.found("viewer", "feedback", "status")["rows"] == ROWS - ROWS // 4


def submitted(region: OwnLearning, tmp_path: Path, base: str, **plan: object) -> tuple[str, ...]:
    region.plan(base, **plan)
    file = tmp_path / f"{base}.toml"
    file.write_text(
        f'kind = "fp16"\nsource = "tiny-edge@1.0.0"\nversion = "1.0.1"\nbase = "{base}"\n'
    )
    return ("train", "submit", str(file), "--seed", str(len(base)))


def test_a_job_is_followed_to_its_end_compared_and_its_files_fetched(
    region: OwnLearning, tmp_path: Path
) -> None:
    jobs = []
    for base, steps in (("well", 5), ("better", 8)):
        said = region.run(
            "trainer", *submitted(region, tmp_path, base, does="well", steps=steps), "-w"
        )
        assert said.code == 0, said.err
        assert re.search(r"done; fp16 tiny-edge@1.0.0 -> 1.0.1", said.err)
        jobs.append(re.findall(r"handed in as (\S+)", said.err)[0])
    listed = region.found("viewer", "train", "list", "--state", "done")
    assert [one["id"] for one in listed] == jobs[::-1]
    shown = region.found("viewer", "train", "show", jobs[0])
    assert shown["run"]["figures"]["accuracy"] == 0.9
    plot = tmp_path / "curves.svg"
    compared = region.found("viewer", "train", "compare", *jobs, "--plot", str(plot))
    assert compared["parameters"]["steps"] == [5, 8]
    assert compared["figures"]["loss"] == {"values": [0.2, 0.125], "best": [jobs[1]]}
    assert b"<svg" in plot.read_bytes()
    target = tmp_path / "weights.txt"
    names = [one["name"] for one in shown["run"]["artifacts"]]
    assert "weights.txt" in names
    region.found("trainer", "train", "get", jobs[0], "weights.txt", "--out", target)
    assert len(target.read_text()) == 64
    lines = region.run("viewer", "train", "logs", jobs[0]).out
    assert lines


def test_a_job_that_fails_is_code_1_in_its_words(region: OwnLearning, tmp_path: Path) -> None:
    said = region.run("trainer", *submitted(region, tmp_path, "nan", does="fails"), "-w")
    assert (said.code, "the loss is NaN" in said.err) == (1, True)


def test_jobs_are_cancelled_where_they_wait_and_where_they_run(
    region: OwnLearning, tmp_path: Path
) -> None:
    region.found("operator", "train", "quota", "set", "slow", "--cpus", "1")
    options = submitted(region, tmp_path, "long", does="well", steps=1000, pace_s=0.1)
    runs, waits = (region.found("trainer", *options, "--team", "slow")["id"] for _ in range(2))
    assert region.found("operator", "train", "priority", waits, "4")["spec"]["priority"] == 4
    until(lambda: region.found("viewer", "train", "list", "--state", "running"))
    assert region.found("trainer", "train", "cancel", waits, "-m", "enough")["state"] == "cancelled"
    assert region.run("trainer", "train", "cancel", runs, "-m", "enough").code == 0
    said = region.run("viewer", "train", "logs", runs, "-f")
    assert (said.code, "cancelled" in said.err) == (1, True)
    (worker,) = region.found("viewer", "train", "workers")
    assert (worker["name"], worker["cpus"]) == ("w", 4)
    region.found("operator", "train", "quota", "delete", "slow")
    assert region.found("viewer", "train", "quota", "list") == []


def test_a_loop_is_set_begun_and_stopped(region: OwnLearning, tmp_path: Path) -> None:
    file = tmp_path / "loop.toml"
    file.write_text('model = "tiny-edge"\nteacher = "tiny-cloud"\n[triggers]\ndrift = false\n')
    assert region.run("trainer", "loop", "set", str(file)).code == 1  # an approver's
    assert region.found("approver", "loop", "set", str(file))["settings"]["model"] == "tiny-edge"
    assert "nothing to change" in region.run("approver", "loop", "set", str(file)).out
    begun = region.found("approver", "loop", "begin", "tiny-edge", "-m", "new lamps")
    assert "tiny-edge" in region.run("viewer", "loop", "list").out
    state = region.found("viewer", "loop", "status")
    assert (state["loops"], state["cycles_running"], state["workers"]) == (1, 1, 1)
    shown = region.run("viewer", "loop", "show", "tiny-edge").out
    assert "hybridge loop stop tiny-edge" in shown
    assert region.run("approver", "loop", "begin", "tiny-edge", "-m", "again").code == 4
    assert region.run("approver", "loop", "delete", "tiny-edge", "--yes").code == 4
    stopped = region.found("approver", "loop", "stop", "tiny-edge", "-m", "wrong")
    assert (stopped["id"], stopped["phase"]) == (begun["id"], "stopped")
    (cycle,) = region.found("viewer", "loop", "cycles", "tiny-edge")
    assert cycle["id"] == begun["id"]
    assert region.found("viewer", "loop", "history", begun["id"])
    assert region.found("viewer", "loop", "checks") == []
    said = region.run("viewer", "loop", "refit", "tiny-edge")
    assert (said.code in {1, 3, 4}, bool(said.err)) == (True, True)
    assert region.run("approver", "loop", "delete", "tiny-edge", "--yes").code == 0


def test_the_page_asks_for_nothing_that_is_not_in_the_description(region: OwnLearning) -> None:
    page = region.get("/", role=None)
    assert page.status == 200
    text = page.body.decode()
    local = set(re.findall(r'(?:src|href)="([^"]+)"', text))
    assert local == {"/web/page.js", "/web/page.css"}
    parts = {path: region.get(path, role=None) for path in local}
    assert all(one.status == 200 for one in parts.values())
    everything = text + "".join(one.body.decode() for one in parts.values())
    assert "//" not in everything.replace("http://www.w3.org/2000/svg", "").replace("// ", "")
    for policy in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"):
        assert policy in page.headers["content-security-policy"]
    script = parts["/web/page.js"].body.decode()
    description = json.loads(region.get("/openapi.json", role=None).body)
    known = {re.sub(r"{\w+}", "{}", path) for path in description["paths"]}
    asked = urls(script)
    assert len(asked) >= 12
    assert asked <= known


def urls(script: str) -> set[str]:
    """Paths that the page asks for, with `{}` for what is filled in. `at` is a path of its own."""
    found: set[str] = set()
    for function in re.split(r"\n(?=(?:async )?function )", script):
        bases = re.findall(r"const at = `(/v1[^`]+)`", function)
        names = bases or ["/v1/feedback/samples/{}/{}"]  # handed on by `card`
        for text in re.findall(r"[`\"](/v1/[^`\"]+|\$\{at\}/[^`\"]+)[`\"]", function):
            for base in names:
                path = text.replace("${at}", base).partition("?")[0]
                found.add(re.sub(r"\$\{[^}]+\}|\{\}", "{}", path))
    return found
