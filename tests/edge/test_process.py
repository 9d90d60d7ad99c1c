"""`hybridge-edge` as a process: ready line, drain, lock, exit codes."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from edge.__main__ import main
from edge.journal import database
from edge.service import _watch_callbacks
from tests.tiny_bundle import sure_image, write_tiny_bundle

_ROOT = str(Path(__file__).parents[2])


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    write_tiny_bundle(tmp_path / "bundle")
    np.save(tmp_path / "set.npy", np.stack([sure_image(n % 3) for n in range(50)]))
    (file := tmp_path / "agent.toml").write_text(
        'device_id = "cam-1"\nstate_dir = "state"\nbundle = "bundle"\n'
        '[[sources]]\nkind = "replay"\npath = "set.npy"\n'
        "rate_per_s = 500\nrepeat = true\n"
    )
    return file


def start(settings: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "edge", "run", "--config", str(settings)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": _ROOT},
    )  # fmt: skip


def test_it_says_when_it_is_ready_refuses_a_second_start_and_drains(settings: Path) -> None:
    with start(settings) as agent:
        assert agent.stdout is not None
        ready = json.loads(agent.stdout.readline())
        assert (ready["event"], ready["device"]) == ("agent_ready", "cam-1")
        with urllib.request.urlopen(ready["api"] + "/v2/health/ready") as response:
            assert response.status == 200
        with start(settings) as second:
            out, err = second.communicate()
        assert (second.returncode, out) == (1, "")
        assert err.count("\n") == 1
        assert f"state is held by process {agent.pid}; stop that agent" in err
        agent.send_signal(signal.SIGTERM)
        _, err = agent.communicate()
    assert agent.returncode == 0, err
    last = json.loads(err.splitlines()[-1])
    assert last["event"] == "drained"
    db = database.connect(settings.parent / "state" / "state.db")
    (recorded,) = db.execute("SELECT count(*) FROM answers").fetchone()
    db.close()
    assert last["counts"] == {"answered": recorded, "recorded": recorded}


def test_a_broken_bundle_ends_it_with_one_line(settings: Path) -> None:
    (settings.parent / "bundle" / "variants" / "model.onnx").write_bytes(b"broken")
    with start(settings) as agent:
        out, err = agent.communicate()
    assert (agent.returncode, out) == (1, "")
    assert err.startswith("hybridge-edge: ")
    assert "model.onnx has 6 bytes" in err
    assert err.count("\n") == 1


def test_a_source_that_dies_takes_the_process_down(settings: Path) -> None:
    (settings.parent / "set.npy").unlink()
    with start(settings) as agent:
        out, err = agent.communicate()
    assert agent.returncode == 1
    assert json.loads(out)["event"] == "agent_ready"
    assert "set.npy" in err.splitlines()[-1]


def test_a_callback_that_fails_ends_the_process_not_just_a_log_line() -> None:
    async def scenario() -> None:
        watching = asyncio.create_task(_watch_callbacks())
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await watching

    asyncio.run(scenario())


def test_a_wrong_setting_is_one_line_and_exit_code_2(
    settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.write_text(settings.read_text().replace("state_dir", "state_dri"))
    assert main(["run", "--config", str(settings)]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"hybridge-edge: {settings}: ")
    assert "state_dri: no such setting" in err
    assert err.count("\n") == 1


def test_the_doctor_looks_at_a_bundle(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--bundle", str(settings.parent / "bundle"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bundle"]["chosen"] == "onnxruntime/fp32"
    assert main(["doctor", "--bundle", str(settings.parent / "none")]) == 1
    assert "there is no such bundle" in capsys.readouterr().out
