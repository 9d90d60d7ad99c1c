"""`hybridge-edge status`, of a real server and of none."""

import asyncio
from pathlib import Path

import pytest

from edge import api_url
from edge.__main__ import main
from edge.status_command import Status, fetch, words
from shared.errors import Disconnected, Unavailable
from tests.edge.api.running import running


def asked(tmp_path: Path) -> Status:
    async def scenario() -> Status:
        async with running() as server:
            api_url.write(tmp_path, f"http://127.0.0.1:{server.port}")
            return await asyncio.to_thread(fetch, tmp_path)

    return asyncio.run(scenario())


def test_it_says_what_runs_and_how_novel_inputs_are(tmp_path: Path) -> None:
    lines = words(asked(tmp_path)).splitlines()
    assert lines[1] == "model      tiny-edge 1.2.3 in onnxruntime/int8"
    assert lines[2] == "link       up; 0 samples wait (0 bytes)"
    assert lines[3] == (
        "inputs     watchful, score 0.88 (input_low); 7 looked at, 1 with nothing in them; audits 1.0%"
    )
    assert lines[-1] == 'given up   expired 2, od"d\\ 1'


def test_a_score_just_below_nothing_is_nothing(tmp_path: Path) -> None:
    status = asked(tmp_path)
    assert status.novelty is not None
    calm = status.novelty.model_copy(update={"level": "calm", "score": -0.004})
    said = words(status.model_copy(update={"novelty": calm}))
    assert "calm, score 0.00 (input_low);" in said


def test_of_an_agent_that_does_not_watch_it_says_why(tmp_path: Path) -> None:
    status = asked(tmp_path).model_copy(update={"novelty": None, "ledger": {}, "counters": {}})
    said = words(status)
    assert "not watched: no cloud to ask, or the bundle has no reference" in said
    assert "counts     none yet\ngiven up   none" in said


def test_without_an_agent_it_fails_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Unavailable, match="no agent has run"):
        fetch(tmp_path)
    api_url.write(tmp_path, "http://127.0.0.1:1")
    with pytest.raises(Disconnected, match="does the agent run"):
        fetch(tmp_path)
    settings = tmp_path / "agent.toml"
    settings.write_text(f'device_id = "d"\nstate_dir = "{tmp_path}"\nbundle = "{tmp_path}"\n')
    assert main(["status", "--config", str(settings)]) == 1
    assert "does the agent run" in capsys.readouterr().err
    assert main(["status", "--config", str(tmp_path / "none.toml")]) == 2
