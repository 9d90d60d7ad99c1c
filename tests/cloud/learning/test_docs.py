"""The page of configuration, and the file that comes with it, are what the program reads."""

import re
import tomllib
from pathlib import Path

from cloud.learning.config import load
from cloud.learning.documents import LoopSettings

ROOT = Path(__file__).parents[3]


def test_the_page_of_configuration_is_a_loop() -> None:
    text = (ROOT / "docs" / "loop.md").read_text()
    (block,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    settings = LoopSettings.model_validate(tomllib.loads(block))
    assert settings.model == "fashion-edge"
    named = set(tomllib.loads(block))
    # `data` is a page of its own
    assert set(LoopSettings.model_fields) - named == {"data"}


def test_the_file_that_comes_with_it_is_read() -> None:
    path = ROOT / "firmware_configs" / "learning.toml"
    config = load(path, {})
    assert config.api.port == 8730
    whole = path.read_text()
    start = whole.index("# [worker.registry]")
    uncommented = whole[:start] + re.sub(r"^# ?", "", whole[start:], flags=re.MULTILINE)
    tree = tomllib.loads(uncommented)
    assert LoopSettings.model_validate(tree["loops"]["declared"][0]).group == "all"
    assert tree["fleet"]["urls"] == ["http://127.0.0.1:8720"]
