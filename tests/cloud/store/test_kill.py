"""kill -9 of a real process in the middle of writing."""

import subprocess
import sys
from pathlib import Path

from cloud.store.feedback import Bounds, FeedbackTable
from tests.cloud.samples import feedback

ROOT = Path(__file__).parents[3]


def test_what_was_said_to_be_stored_is_there_after_kill_9(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'feedback.db'}"
    with subprocess.Popen(
        [sys.executable, "-m", "tests.cloud.store.writing_child", url],
        cwd=ROOT, stdout=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        assert child.stdout is not None
        said = [int(child.stdout.readline()) for _ in range(8)]
        child.kill()
        said += [int(line) for line in child.stdout]
    table = FeedbackTable(url, Bounds(rows_max=10**6, bytes_max=10**9))
    table.open()
    keys = [feedback(number * 10 + n).key for number in said for n in range(10)]
    assert len(table.find(keys)) == len(keys) >= 80
    table.close()
