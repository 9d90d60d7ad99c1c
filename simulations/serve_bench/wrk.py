"""`wrk`, the load generator of the closed-loop cells: one thread, keep-alive, one fixed request."""

import json
import resource
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from shared.errors import Unavailable
from simulations.serve_bench.wire_forms import Request

_MARK: Final = "serve-bench "
_DONE: Final = """
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    '\\nserve-bench {"requests": %d, "duration_us": %d, "p50_us": %d, "p99_us": %d, "status": %d, "socket": %d}\\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    e.status, e.connect + e.read + e.write + e.timeout))
end
"""


@dataclass(frozen=True, slots=True)
class Found:
    """What one run found. wrk's p99 already counts what a slow answer kept from being sent."""

    answered: int
    per_second: float
    p50_ms: float
    p99_ms: float
    failed: int
    """Answers other than 2xx and 3xx, and connections that broke."""
    client_cpu_s: float = 0.0


def write_script(folder: Path, name: str, request: Request) -> Path:
    """Write the body and the Lua script of a request; give the script's path."""
    body, script = folder / f"{name}.body", folder / f"{name}.lua"
    body.write_bytes(request.body)
    lines = [
        f"local file = io.open({json.dumps(str(body))}, 'rb')",
        "wrk.body = file:read('*a'); file:close()",
        "wrk.method = 'POST'",
        f"wrk.path = {json.dumps(request.path)}",
        *(f"wrk.headers[{json.dumps(k)}] = {json.dumps(v)}" for k, v in request.headers.items()),
    ]
    script.write_text("\n".join(lines) + _DONE)
    return script


def run(
    url: str, script: Path, connections: int, seconds: int, prefix: tuple[str, ...] = ()
) -> Found:
    """Drive `url` for whole `seconds`; `prefix` may pin it. Raises `Unavailable` if it cannot."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run(  # noqa: S603  a fixed program, no shell
        [
            *prefix, "wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s",
            "-s", str(script), url,
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ran.returncode:
        raise Unavailable(f"wrk: {(ran.stderr or ran.stdout).strip()[-300:]}")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return parse(ran.stdout, cpu_s)


def parse(said: str, client_cpu_s: float = 0.0) -> Found:
    """Read the line that our script makes wrk print.

    Raises:
        Unavailable: there is no such line, so the run did not end well.

    """
    line = next((one for one in said.splitlines() if one.startswith(_MARK)), None)
    if line is None:
        raise Unavailable(f"wrk printed no result: {said.strip()[-300:]}")
    found = json.loads(line.removeprefix(_MARK))
    answered = found["requests"] - found["status"]
    return Found(
        answered=answered,
        per_second=answered / max(1e-6, found["duration_us"] / 1e6),
        p50_ms=found["p50_us"] / 1e3,
        p99_ms=found["p99_us"] / 1e3,
        failed=found["status"] + found["socket"],
        client_cpu_s=client_cpu_s,
    )
