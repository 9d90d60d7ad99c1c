from pathlib import Path

import pytest

from shared.errors import Unavailable
from simulations.serve_bench import wrk
from simulations.serve_bench.wire_forms import Request

SAID = """Running 2s test @ http://127.0.0.1:8000
  1 threads and 8 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.96ms    0.52ms  12.10ms   91.20%
  8231 requests in 2.00s, 1.02MB read
Requests/sec:   4115.12

serve-bench {"requests": 8231, "duration_us": 2000000, "p50_us": 1910, "p99_us": 3120, "status": 31, "socket": 2}
"""


def test_what_failed_is_no_answer_and_times_come_in_ms() -> None:
    found = wrk.parse(SAID)
    assert (found.answered, found.failed, found.per_second) == (8_200, 33, 4_100.0)
    assert (found.p50_ms, found.p99_ms) == (1.91, 3.12)


def test_a_run_that_ended_early_is_an_error_and_not_zero_requests() -> None:
    with pytest.raises(Unavailable, match="unable to connect"):
        wrk.parse("unable to connect to 127.0.0.1:1 Connection refused")


def test_the_script_has_body_headers_and_the_line_that_is_read_back(tmp_path: Path) -> None:
    asked = Request("/v2/models/cnn/infer", b"\x00\xff\n", {"X-API-Key": 'a"b'})
    script = wrk.write_script(tmp_path, "one", asked).read_text()
    assert (tmp_path / "one.body").read_bytes() == asked.body
    assert 'wrk.headers["X-API-Key"] = "a\\"b"' in script
    assert "serve-bench {" in script
