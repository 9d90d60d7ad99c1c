import os
import subprocess
import sys
from pathlib import Path

import pytest

from edge.state_lock import StateLock
from shared.errors import InUse, Malformed

_HOLD = (
    "import sys; from pathlib import Path; from edge.state_lock import StateLock\n"
    "StateLock(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
)


def test_a_second_agent_is_refused_and_told_who_and_where(tmp_path: Path) -> None:
    with (
        StateLock(tmp_path / "state"),
        pytest.raises(InUse, match=rf"{tmp_path}/state is held by process {os.getpid()}; stop"),
    ):
        StateLock(tmp_path / "state")


def test_it_is_free_again_after_release(tmp_path: Path) -> None:
    StateLock(tmp_path).release()
    StateLock(tmp_path).release()


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    root = str(Path(__file__).parents[2])
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": root},
    ) as holder:  # fmt: skip
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(InUse, match=f"process {holder.pid};"):
            StateLock(tmp_path)
        holder.kill()
        holder.wait()
        StateLock(tmp_path).release()


def test_a_folder_that_cannot_be_made_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Malformed, match="set state_dir to a folder that this user may write to"):
        StateLock(tmp_path / "file" / "state")
