"""`hybridge capacity`: one real load test, and what is made of its result."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from cloud.capacity.manifests import query
from cloud.capacity.measured import read_measured, write_measured
from cloud.cli.__main__ import app
from cloud.config import Config
from shared.bundle.reader import open_bundle
from shared.errors import Disconnected, Malformed, Unavailable, Unknown
from tests.cloud.capacity.test_measured import measured
from tests.cloud.workers import Worker, cloud_bundle, worker

runner = CliRunner()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with worker(tmp_path_factory.mktemp("capacity")) as one:
        one.ready()
        yield one


def run(*arguments: str) -> tuple[int, str]:
    found = runner.invoke(app, ["capacity", *arguments])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found.exit_code, found.output


QUICK = ("--model", "tiny-cloud", "--seconds", "0.5", "--connections", "32")


def test_a_real_worker_is_measured_and_the_other_commands_read_the_result(
    served: Worker, tmp_path: Path
) -> None:
    out = tmp_path / "measured.json"
    code, output = run(
        "measure", "--url", served.api, *QUICK, "--sla-ms", "1000", "--start-qps", "50",
        "--qps-max", "200", "--out", str(out),
    )  # fmt: skip
    assert code == 0, output
    found = read_measured(out)
    assert (found.model, found.model_version, found.rows) == ("tiny-cloud", "1.0.0", 1)
    assert found.qps_at_sla == 200  # looked no higher
    assert 100 < found.qps_max < 320
    assert [round(trial.asked_qps) > 0 for trial in found.trials] == [True] * len(found.trials)
    assert "200/s with p99 within 1000 ms" in output
    code, output = run(
        "size", "--from", str(out), "--qps", "500", "--device-memory", "1GiB", "--parameters",
        "1M", "--json",
    )  # fmt: skip
    assert code == 0
    assert json.loads(output)["fleet"]["copies"] == 5  # 500 / (200 * 0.75), and one to spare
    code, output = run("autoscale", "--from", str(out), "--kind", "keda")
    assert code == 0
    _, scaled = yaml.safe_load_all(output)
    assert scaled["spec"]["triggers"][0]["metadata"]["threshold"] == "150.000"


def test_recorded_rows_and_json_lines(served: Worker, tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.zeros((10, 4, 4), np.uint8))
    code, output = run(
        "measure", "--url", served.api, *QUICK, "--sla-ms", "1000", "--start-qps", "50",
        "--qps-max", "50", "--rows", "2", "--input", str(tmp_path / "rows.npy"), "--json",
        "--out", str(tmp_path / "m.json"),
    )  # fmt: skip
    assert code == 0
    *trials, last = map(json.loads, output.splitlines())
    assert {trial["event"] for trial in trials} == {"trial"}
    assert (last["rows"], last["qps_at_sla"]) == (2, 50)


def test_a_worker_that_refuses_everything_is_told_at_once(tmp_path: Path) -> None:
    made = runner.invoke(app, ["key", "add", str(tmp_path / "keys"), "me", "--role", "infer", "--rate", "1/hour"])  # fmt: skip
    (tmp_path / "key").write_text(made.stdout.split()[0])
    out = tmp_path / "m.json"
    with worker(tmp_path, config='gateway.key_file = "keys"') as one:
        one.ready()
        with pytest.raises(Unavailable, match=r"no request was answered: \d+ were refused"):
            run(
                "measure", "--url", one.api, *QUICK, "--key-file", str(tmp_path / "key"),
                "--out", str(out),
            )  # fmt: skip
    assert not out.exists()


def test_what_cannot_be_measured_is_said(served: Worker, tmp_path: Path) -> None:
    with pytest.raises(Unknown, match="serves no model 'nobody'"):
        run("measure", "--url", served.api, "--model", "nobody")
    with pytest.raises(Disconnected):
        run("measure", "--url", "http://127.0.0.1:1", "--model", "m")
    with pytest.raises(Malformed, match="plain http"):
        run("measure", "--url", "https://127.0.0.1:1", "--model", "m")
    (tmp_path / "bad.npy").write_bytes(b"no array")
    for name in ("bad.npy", "none.npy"):
        with pytest.raises(Malformed, match=r"no \.npy file that can be read"):
            run("measure", "--url", served.api, *QUICK, "--input", str(tmp_path / name))


def test_the_query_names_metrics_that_a_worker_has(served: Worker) -> None:
    tensor = '{"inputs": [{"name": "image", "shape": [1], "datatype": "UINT8", "data": [1]}]}'
    import urllib.error  # noqa: PLC0415
    import urllib.request  # noqa: PLC0415

    request = urllib.request.Request(f"{served.api}/v2/models/tiny-cloud/infer", tensor.encode())
    with pytest.raises(urllib.error.HTTPError) as refused:  # so that a problem is counted
        urllib.request.urlopen(request, timeout=10)
    refused.value.close()
    _, text = served.get("/metrics")
    asked = query("pod=")
    for name, label in (
        ("hybridge_stage_seconds_count", 'stage="queue"'),
        ("hybridge_http_problems_total", 'kind="'),
        ("hybridge_refused_total", 'code="overloaded"'),
    ):
        assert name in asked
        assert any(line.startswith(name) and label in line for line in text.splitlines()), name


def test_a_bundle_is_loaded_and_weighed(tmp_path: Path) -> None:
    code, output = run(
        "size", "--bundle", str(cloud_bundle(tmp_path)), "--qps-at-sla", "100", "--qps", "10",
        "--device-memory", "24GiB", "--json",
    )  # fmt: skip
    assert code == 0
    memory = json.loads(output)["memory_bytes"]
    (one,) = open_bundle(tmp_path / "cloud-bundle").manifest.variants
    assert memory["weights"] == one.file.bytes
    assert memory["activations_how"].startswith("measured: what a process grew by")
    code, output = run(
        "size", "--bundle", str(cloud_bundle(tmp_path)), "--qps-at-sla", "100", "--qps", "10",
        "--device-memory", "24GiB",
    )  # fmt: skip
    assert "1 copies and 1 spare" in output
    assert "copies fit on one device" in output


def test_a_language_model_of_several_devices() -> None:
    code, output = run(
        "size", "--parameters", "70B", "--precision", "int8", "--kv", "80,8,128,4096,16",
        "--activation-mb", "1024", "--device-memory", "80GB", "--qps", "5", "--qps-at-sla", "2",
        "--json",
    )  # fmt: skip
    assert code == 0
    found = json.loads(output)
    assert found["memory_bytes"]["kv_cache"] == 2 * 80 * 8 * 128 * 2 * 4096 * 16
    assert found["fleet"] == {
        "copies": 5, "spare": 1, "copies_that_fit": 0, "devices_a_copy": 2, "devices": 10,
    }  # fmt: skip


@pytest.mark.parametrize(
    "arguments",
    [
        ("size", "--device-memory", "1GiB", "--qps", "1", "--qps-at-sla", "1"),
        ("size", "--device-memory", "1GiB", "--qps", "1", "--parameters", "1M"),
        ("size", "--device-memory", "1GiB", "--qps", "1", "--parameters", "1M", "--qps-at-sla", "1", "--from", "x"),
        ("autoscale", "--from", "x", "--kind", "vpa"),
        ("measure",),
    ],
)  # fmt: skip
def test_wrong_usage_is_code_2(arguments: tuple[str, ...]) -> None:
    assert run(*arguments)[0] == 2


def test_how_long_a_pod_may_take_to_end_follows_the_workers_settings(tmp_path: Path) -> None:
    out, config = tmp_path / "m.json", tmp_path / "cloud.toml"
    write_measured(out, measured())
    default = Config.model_fields["notice_s"].default + Config.model_fields["drain_s"].default
    deployment, _ = yaml.safe_load_all(run("autoscale", "--from", str(out))[1])
    grace_s = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace_s == default + 5
    config.write_text("notice_s = 10\ndrain_s = 20.5\n")
    deployment, _ = yaml.safe_load_all(
        run("autoscale", "--from", str(out), "--config", str(config))[1]
    )
    assert deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 36
    for bad in ("drain_s = true", 'drain_s = "x"', "drain_s = -1", "notice_s = inf"):
        config.write_text(bad)
        with pytest.raises(Malformed, match="want seconds"):
            run("autoscale", "--from", str(out), "--config", str(config))


def test_a_worker_that_kept_no_rate_is_no_base(tmp_path: Path) -> None:
    write_measured(tmp_path / "m.json", measured(0.0))
    with pytest.raises(Malformed, match="no rate kept the SLA"):
        run("autoscale", "--from", str(tmp_path / "m.json"))


def test_bounds_that_cross_are_said_in_words(tmp_path: Path) -> None:
    write_measured(tmp_path / "m.json", measured())
    with pytest.raises(Malformed, match="workers_max 1 is below workers_min 2"):
        run("autoscale", "--from", str(tmp_path / "m.json"), "--workers-max", "1")
