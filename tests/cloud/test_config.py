from pathlib import Path

import pytest

from cloud.config import Config, load, parse
from shared.errors import Malformed

SMALLEST = '[[models]]\nbundle = "cloud.hyb"\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "cloud.toml"
    path.write_text(text)
    return path


def test_paths_count_from_the_files_folder(tmp_path: Path) -> None:
    config = load(written(tmp_path, SMALLEST + '[broker]\nkind = "mosquitto"\n'), {})
    assert config.models[0].bundle == tmp_path / "cloud.hyb"
    assert config.state_dir == tmp_path / "hybridge-cloud"
    assert config.broker.state_dir == tmp_path / "hybridge-cloud" / "broker"
    assert config.store_url == f"sqlite:///{tmp_path}/hybridge-cloud/feedback.db"


def test_the_command_line_stands_above_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, 'name = "a"\n' + SMALLEST + "[api]\nport = 1\nhost = 'localhost'\n")
    config = load(path, {"name": "b", "api": {"port": 2}, "state_dir": "here"})
    assert (config.name, config.api.port, config.api.host) == ("b", 2, "localhost")
    assert config.state_dir == Path("here")


def test_a_broker_of_another_kind_takes_nothing_from_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, SMALLEST + "[broker]\nkind = 'url'\nurl = 'mqtt://far'\n")
    assert load(path, {"broker": {"kind": "embedded"}}).broker.url is None


def test_a_workers_file_may_hold_its_latency_budget(tmp_path: Path) -> None:
    path = written(tmp_path, SMALLEST + "[budget]\nqueue_ms = 5\n")
    assert load(path, {}).budget.queue_ms == 5


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("models = []", "models"),
        ("", "models"),
        (SMALLEST + "colour = 1", "models.0.colour"),
        ("typo = 1\n" + SMALLEST, "typo"),
        (SMALLEST + "[batching]\nsize_max = 0", "batching.size_max"),
        (SMALLEST + "[batching]\nsize_max = 64\ndepth_max = 32", "depth_max 32"),
        (SMALLEST + "[store]\npending_max = 5", "pending_max 5"),
        (SMALLEST + "[broker]\nkind = 'url'", "broker"),
        ('name = "a/b"\n' + SMALLEST, "name"),
        ("drain_s = 0\n" + SMALLEST, "drain_s"),
        ("not toml", "line 1"),
    ],
)
def test_each_mistake_is_named_with_its_file(tmp_path: Path, text: str, named: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(Malformed) as refused:
        load(path, {})
    assert str(path) in str(refused.value)
    assert named in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Malformed, match="nowhere"):
        load(tmp_path / "nowhere.toml", {})


def test_settings_never_change() -> None:
    config = parse({"models": [{"bundle": "x"}]}, "test")
    assert isinstance(config, Config)
    with pytest.raises(ValueError, match="frozen"):
        config.batching.size_max = 3
