"""An offline batch with enough to do for minutes, to stand beside an online server under load.

`python -m simulations.offline_load FOLDER --online http://127.0.0.1:8600` writes its inputs into
FOLDER/in, becomes `hybridge batch run ... --json`, and ends on SIGTERM with code 4. Rows so far:
`hybridge batch status FOLDER/out --json`, or the last line that it printed.
"""

import argparse
import os
import sys
from pathlib import Path

import numpy as np

from shared.bundle.reader import open_bundle

ROWS_PER_FILE = 20_000
FILES = 200  # 4 million rows: over ten minutes at 5,000 a second


def command(
    folder: Path, bundle: Path, online: str | None, more: tuple[str, ...] = ()
) -> list[str]:
    """Write the inputs, unless they are there; returns what to execute."""
    inputs = folder / "in"
    if not inputs.exists():
        _write(inputs, bundle)
    words = [
        sys.executable, "-m", "cloud.cli", "batch", "run", str(inputs), str(folder / "out"),
        "--bundle", str(bundle), "--json", *more,
    ]  # fmt: skip
    return words if online is None else [*words, "--online", online]


def _write(inputs: Path, bundle: Path) -> None:
    """One file under many names: each is read and answered as its own."""
    inputs.mkdir(parents=True)
    samples = open_bundle(bundle).golden.inputs
    rows = np.resize(samples, (ROWS_PER_FILE, *samples.shape[1:]))
    np.save(inputs / "rows-000.npy", rows)
    for number in range(1, FILES):
        os.link(inputs / "rows-000.npy", inputs / f"rows-{number:03}.npy")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="for inputs and answers; the answers go on")
    parser.add_argument("--bundle", type=Path, default=Path("models/fashion-cloud"))
    parser.add_argument("--online", help="http://host:port of the server to give way to")
    known, more = parser.parse_known_args()
    words = command(known.folder, known.bundle, known.online, tuple(more))
    os.execv(words[0], words)  # noqa: S606  our own words


if __name__ == "__main__":
    main()
