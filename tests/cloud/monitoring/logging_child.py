"""Processes that log until something stops them: `python -m ... <what> <folder>`."""

import itertools
import json
import logging
import resource
import sys
import time
from pathlib import Path

from prometheus_client import CollectorRegistry

from cloud.monitoring.inference_log import InferenceLog
from cloud.monitoring.settings import InferenceLogSettings
from tests.cloud.monitoring.entries import numbered


def until_killed(folder: Path) -> None:
    """Says so once some hundred lines are written."""
    made = InferenceLog(
        InferenceLogSettings(lines_per_s_max=100_000, bytes_max=1_000_000, files_max=3),
        folder, CollectorRegistry(), now=itertools.count().__next__,
    )  # fmt: skip
    made.start()
    told = False
    for number in itertools.count():
        made.write(numbered(number))
        if made.counts.dropped:
            time.sleep(0)  # the log's thread has its turn
        if not told and made.counts.written >= 300:
            told = True
            print("some hundred", flush=True)


def with_little_room(folder: Path) -> None:
    """The file may not grow over 100,000 bytes; once lines were lost for that, it may."""
    hard = resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    made = InferenceLog(InferenceLogSettings(lines_per_s_max=100_000), folder, CollectorRegistry())
    made.start()
    for number in range(500):
        made.write(numbered(number))
    made.flush()
    while made.counts.written + made.counts.lost < 500:
        time.sleep(0)  # the log's thread has its turn
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    for number in range(10):
        made.write(numbered(number))
    made.close()
    print(json.dumps([made.counts.written, made.counts.lost, made.counts.dropped]))


if __name__ == "__main__":
    logging.basicConfig(format="%(message)s", level="INFO", stream=sys.stderr)
    {"killed": until_killed, "little": with_little_room}[sys.argv[1]](Path(sys.argv[2]))
