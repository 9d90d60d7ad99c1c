"""`/openapi.json` is complete, and the API is as it says: schemathesis, all checks, every route."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cloud.registry.api.checked import PATHS
from tests.cloud.keyed_process import ROOT
from tests.cloud.registry.api.conftest import NO_EVALUATORS
from tests.cloud.registry.servers import RegistryProcess
from tests.cloud.registry.trust_keys import TrustKeys

CONFIG = ROOT / "tests" / "cloud" / "api" / "schemathesis.toml"


def test_every_path_says_what_its_names_may_be(running: RegistryProcess) -> None:
    document = running.get("/openapi.json", None).json
    assert document["info"]["title"] == "Hybridge registry"
    for path, methods in document["paths"].items():
        for operation in methods.values():
            named = {
                one["name"]: one["schema"]["pattern"]
                for one in operation["parameters"] if one["in"] == "path"
            }  # fmt: skip
            assert named == {name: PATHS.pattern(name) for name in re.findall(r"\{(\w+)\}", path)}


def fuzz(keys: TrustKeys, folder: Path, *arguments: str) -> int:
    """How many requests were made; a registry that lets everybody do everything, so that all of it
    is reached.
    """
    settings = keys.settings + "[gateway]\n" + NO_EVALUATORS
    with RegistryProcess(folder / "registry", settings) as open_to_all:
        keys.publish(open_to_all, "0")
        command = [
            sys.executable, "-m", "schemathesis.cli", f"--config-file={CONFIG}", "run",
            f"{open_to_all.url}/openapi.json", "--checks=all", "--seed=1", "--no-color",
            "--generation-database=:memory:",
            # its path is one of `/v1/artifacts/{sha256}`, too, for a router that knows no patterns
            "--exclude-path=/v1/artifacts/missing", *arguments,
        ]  # fmt: skip
        done = subprocess.run(
            command, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"(\d+) generated", done.stdout)
    assert found is not None
    return int(found[1])


def test_the_api_is_as_it_says(trust_keys: TrustKeys, tmp_path: Path) -> None:
    assert fuzz(trust_keys, tmp_path, "--phases=fuzzing", "--max-examples=3") > 50


@pytest.mark.slow
def test_the_api_is_as_it_says_in_detail(trust_keys: TrustKeys, tmp_path: Path) -> None:
    assert fuzz(trust_keys, tmp_path, "--phases=coverage,fuzzing", "--max-examples=20") > 1000
