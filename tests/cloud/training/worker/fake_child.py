"""A job's process that learns nothing: it speaks the protocol, well or badly, as its base data says.

It imports nothing of ours: a test has a dozen of it, and the worker checks each of its lines.
The base data is JSON: what it `does`, in how many `steps`, with `pace_s` between two. Its "weights"
are a chain of hashes, so that a run which was interrupted can be held against one that was not.
"""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

LINE_BYTES_MAX = 64 * 1024
stop_asked = False


def on_sigterm(*_: object) -> None:
    global stop_asked  # noqa: PLW0603  a signal handler has nowhere else
    stop_asked = True


def say(kind: str, **message: object) -> None:
    sys.stdout.write(json.dumps({"kind": kind, **message}) + "\n")
    sys.stdout.flush()


def main() -> None:
    signal.signal(signal.SIGTERM, on_sigterm)
    order = json.loads(sys.stdin.readline())
    folder, recipe = Path(order["folder"]), order["recipe"]
    plan = json.loads(Path(order["base"]).read_text())
    does, steps, pace_s = plan["does"], plan.get("steps", 5), plan.get("pace_s", 0.0)
    if does == "imports":  # as one that has not come to its first line
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        print("importing", file=sys.stderr, flush=True)
        hang()
    found = sorted((folder / "checkpoints").glob("*.txt"))
    step, chain = 0, str(recipe["fitting"]["seed"])
    if found:
        step, chain = json.loads(found[-1].read_text())
    env = {
        name: os.environ.get(name)
        for name in ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "RAY_ADDRESS")
    }
    say(
        "started", parameters={"kind": recipe["kind"], "steps": steps, **env}, machine="a fake",
        resumed_step=step or None,
    )  # fmt: skip
    print("to stderr", file=sys.stderr)
    misbehave(does, folder)
    while step < steps:
        step, chain = step + 1, hashlib.sha256(chain.encode()).hexdigest()
        place = folder / "checkpoints" / f"{step:06}.txt"
        beside = place.with_suffix(".tmp")
        beside.write_text(json.dumps([step, chain]))
        beside.replace(place)
        say("measured", step=step, progress=step / steps, values={"loss": 1 / step})
        say("checkpointed", step=step, path=str(place))
        if stop_asked:
            say("stopped", step=step)
            return
        time.sleep(pace_s)
    (folder / "artifacts").mkdir()
    (folder / "artifacts" / "weights.txt").write_text(chain)
    source = next(iter(order["bundles"].values()))
    shutil.copytree(source, folder / "bundle")
    manifest = folder / "bundle" / "manifest.json"
    before = recipe["source"].partition("@")[2]
    text = manifest.read_text().replace(f'"{before}"', '"' + recipe["version"] + '"')
    manifest.write_text("{}" if does == "spoils" else text)
    say("made", name="tiny-edge", version=recipe["version"], figures={"accuracy": 0.9})


def misbehave(does: str, folder: Path) -> None:
    match does:
        case "floods":
            while True:
                say("said", text="again")
        case "floods_stderr":
            while True:
                print("again", file=sys.stderr)
        case "long_line":
            sys.stdout.write("x" * (LINE_BYTES_MAX * 4))
            sys.stdout.flush()
            hang()
        case "garbage":
            sys.stdout.write('{"kind": "made"}\n')
            sys.stdout.flush()
            hang()
        case "hangs":
            hang()
        case "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            hang()
        case "crashes":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "ends":
            sys.exit(3)
        case "fails":
            say("failed", reason="nan_loss", words="the loss is NaN", step=7)
            sys.exit(1)
        case "lingers":
            say("failed", reason="nan_loss", words="the loss is NaN")
            hang()
        case "no_room":
            say("failed", reason="no_room", words="the disk is full")
            sys.exit(1)
        case "faulty_disk":
            say("failed", reason="away", words="the disk is faulty")
            sys.exit(1)
        case "leaves":
            child = subprocess.Popen(
                [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
            )
            say("said", text=f"left {child.pid}")
        case "hides":  # a process that holds its pipes and does not carry its mark
            child = subprocess.Popen(
                [sys.executable, "-c", "import time; time.sleep(600)"],
                start_new_session=True,
                env={},
            )
            say("said", text=f"left {child.pid}")
        case "fills":
            (folder / "big").write_bytes(os.urandom(3 * 2**20))
            hang()


def hang() -> None:
    while True:
        time.sleep(600)  # SIGTERM wakes it, and it sleeps on


main()
