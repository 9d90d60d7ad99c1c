import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from cloud.monitoring.inference_log import PAYLOAD_BYTES_MAX, InferenceLog, _blocks
from cloud.monitoring.log_entry import Entry
from cloud.monitoring.log_file import claim
from cloud.monitoring.settings import BLOCK_BYTES, InferenceLogSettings
from tests.cloud.monitoring.entries import ENTRY, numbered
from tests.tiny_bundle import sure_image

UNSURE = replace(ENTRY, confidence=0.4, input_digest=None)
CHILD = [sys.executable, "-m", "tests.cloud.monitoring.logging_child"]


def made(folder: Path, **settings: Any) -> InferenceLog:
    """Its clock stands still."""
    return InferenceLog(
        InferenceLogSettings.model_validate(settings), folder, CollectorRegistry(), now=lambda: 0.0
    )


@contextmanager
def started(folder: Path, **settings: Any) -> Iterator[InferenceLog]:
    log = made(folder, **settings)
    log.start()
    yield log
    log.close()


def ids(folder: Path, name: str = "inference.log") -> list[str]:
    text = (folder / name).read_text()
    assert not text or text.endswith("\n")
    return [json.loads(line)["request_id"] for line in text.splitlines()]


def test_lines_are_written_in_order_and_all_before_it_closes(tmp_path: Path) -> None:
    with started(tmp_path) as log:
        for number in range(300):
            log.write(numbered(number))
    assert ids(tmp_path) == [str(number) for number in range(300)]
    assert log.counts.written == 300


def test_files_are_rotated_and_bounded(tmp_path: Path) -> None:
    with started(tmp_path, bytes_max=131_072, files_max=3, lines_per_s_max=5_000) as log:
        for number in range(2_000):
            log.write(numbered(number))
    files = sorted(path for path in tmp_path.iterdir() if ".log" in path.name)
    assert [path.name for path in files] == ["inference.log", "inference.log.1", "inference.log.2"]
    assert max(path.stat().st_size for path in files) <= 131_072
    kept = [one for path in reversed(files) for one in ids(tmp_path, path.name)]
    assert kept == [str(number) for number in range(2_000 - len(kept), 2_000)]


def test_a_disk_that_hangs_costs_lines_and_never_waits(tmp_path: Path) -> None:
    log = made(tmp_path, pending_max=16)  # not started: nobody takes the lines
    for number in range(100):
        log.write(numbered(number))
    assert log.counts.dropped == 84
    log.start()
    log.close()
    assert ids(tmp_path) == [str(number) for number in range(16)]


def test_lines_a_second_are_bounded(tmp_path: Path) -> None:
    with started(tmp_path, lines_per_s_max=5) as log:
        for number in range(9):
            log.write(numbered(number))
    assert len(ids(tmp_path)) == 5
    assert log.counts.dropped == 4


def test_notable_answers_a_second_are_bounded(tmp_path: Path) -> None:
    log = made(tmp_path, notable_per_s=3)
    assert [log.notable() for _ in range(5)] == [True, True, True, False, False]


def test_a_rate_of_nothing_lets_nothing_through(tmp_path: Path) -> None:
    with started(tmp_path, notable_per_s=0, lines_per_s_max=0) as log:
        assert not log.notable()
        log.write(numbered(0))
    assert not (tmp_path / "inference.log").exists()
    assert log.counts.dropped == 1


def test_less_than_one_a_second_still_comes(tmp_path: Path) -> None:
    now = iter((0.0, 9.0, 10.0))
    settings = InferenceLogSettings(notable_per_s=0.1)
    log = InferenceLog(settings, tmp_path, CollectorRegistry(), now=lambda: next(now))
    assert [log.notable() for _ in range(3)] == [True, False, True]


def test_a_full_disk_is_counted_and_told_once_each_way(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "inference.log").symlink_to("/dev/full")
    with caplog.at_level(logging.INFO), started(tmp_path) as log:
        for number in range(300):
            log.write(numbered(number))
    assert (log.counts.written, log.counts.lost) == (0, 300)
    assert [record.message for record in caplog.records] == ["inference_log_failed"]


def test_a_folder_that_cannot_be_made_is_survived(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file is in the way")
    with started(tmp_path / "state") as log:
        log.write(ENTRY)
    assert log.counts.lost == 1


def test_a_disk_that_takes_a_part_is_left_with_whole_lines_and_is_used_again(
    tmp_path: Path,
) -> None:
    child = subprocess.run(
        [*CHILD, "little", str(tmp_path)], capture_output=True, check=True, timeout=60
    )
    written, lost, dropped = json.loads(child.stdout)
    kept = written - 10
    assert 0 < kept < 500
    assert (lost, dropped) == (500 - kept, 0)
    assert ids(tmp_path) == [str(number) for number in (*range(kept), *range(10))]
    told = child.stderr.decode()
    assert told.count("inference_log_failed") == told.count("inference_log_back") == 1


def test_a_kill_leaves_whole_lines_and_the_next_start_goes_on(tmp_path: Path) -> None:
    for _ in range(3):
        child = subprocess.Popen([*CHILD, "killed", str(tmp_path)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        assert child.stdout.readline() == b"some hundred\n"
        child.kill()
        child.wait()
        child.stdout.close()
        files = tmp_path.glob("inference.log*")
        whole = [path.read_bytes().rpartition(b"\n")[0] for path in files]
        assert len(b"".join(whole)) > 100_000
        for line in b"\n".join(whole).split():
            json.loads(line)
    with started(tmp_path) as log:
        log.write(numbered(-1))
    assert ids(tmp_path)[-1] == "-1"


def test_where_another_process_logs_it_writes_beside_it(tmp_path: Path) -> None:
    _, lock = claim(tmp_path)
    with started(tmp_path, payload="low_confidence") as log:
        log.write(UNSURE, sure_image(1)[None])
    os.close(lock)
    assert ids(tmp_path, "inference-2.log") == ["request-1"]
    assert len(list(tmp_path.glob("inference-2-payloads/*.npy"))) == 1
    assert not (tmp_path / "inference.log").exists()


def test_what_is_written_at_once_is_bounded() -> None:
    lines = [b"x" * 10_000] * 20 + [b"y" * BLOCK_BYTES]
    blocks = list(_blocks(lines))
    assert [line for block in blocks for line in block] == lines
    assert max(sum(map(len, block)) for block in blocks) <= BLOCK_BYTES
    assert all(blocks)


def test_an_entry_that_is_none_costs_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bad: Entry = replace(ENTRY, at=float("inf"))
    with started(tmp_path) as log:
        for entry in (bad, numbered(1)):
            log.write(entry)
    assert ids(tmp_path) == ["1"]
    assert (log.counts.lost, log.counts.written) == (1, 1)


def payloads(folder: Path) -> list[Path]:
    return sorted(folder.glob("inference-payloads/*"))


def test_payloads_are_never_kept_unless_asked_for(tmp_path: Path) -> None:
    with started(tmp_path) as log:
        log.write(UNSURE, sure_image(1)[None])
    assert len(ids(tmp_path)) == 1
    assert payloads(tmp_path) == []


def test_of_unsure_answers_they_are_when_asked_for(tmp_path: Path) -> None:
    rows = sure_image(1)[None]
    with started(tmp_path, payload="low_confidence") as log:
        log.write(ENTRY, sure_image(2)[None])
        log.write(replace(UNSURE, confidence=None), sure_image(2)[None])
        log.write(UNSURE, rows)
        rows[...] = 9  # the buffer is used again
    (kept,) = payloads(tmp_path)
    assert (np.load(kept) == sure_image(1)).all()
    assert log.counts.payloads_written == 1


def test_large_and_many_payloads_are_dropped_and_counted(tmp_path: Path) -> None:
    log = made(tmp_path, payload="low_confidence")
    log.write(UNSURE, np.zeros((1, PAYLOAD_BYTES_MAX + 1), np.uint8))
    assert log.counts.payloads_dropped == 1
    for number in range(100):
        log.write(UNSURE, np.full((1, 4, 4), number, np.uint8))
    log.start()
    log.close()
    assert log.counts.payloads_dropped == 1 + 100 - 63
    assert len(payloads(tmp_path)) == 63
    assert len(ids(tmp_path)) == 101


def test_payloads_that_the_disk_does_not_take_cost_no_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "inference-payloads").write_text("a file is in the way")
    with started(tmp_path, payload="low_confidence") as log:
        for _ in range(5):
            log.write(UNSURE, sure_image(1)[None])
    assert len(ids(tmp_path)) == 5
    assert log.counts.payloads_lost == 5
    assert [record.message for record in caplog.records] == ["inference_log_failed"]


def test_after_it_is_closed_it_takes_nothing_and_leaves_no_thread(tmp_path: Path) -> None:
    with started(tmp_path) as log:
        pass
    log.write(ENTRY)
    assert log.counts.dropped == 1
    assert "inference-log" not in {thread.name for thread in threading.enumerate()}


def test_sampled_is_the_share_of_the_settings(tmp_path: Path) -> None:
    log = made(tmp_path, share=0.5)
    assert 400 < sum(log.sampled(f"request-{number}") for number in range(1_000)) < 600


def test_figures(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    log = InferenceLog(InferenceLogSettings(), tmp_path, registry)
    log.counts.written, log.counts.lost = 3, 1
    text = generate_latest(registry).decode()
    assert 'hybridge_inference_log_lines_total{outcome="written"} 3.0' in text
    assert 'hybridge_inference_log_lines_total{outcome="lost"} 1.0' in text
