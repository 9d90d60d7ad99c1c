"""A registry's settings, and the example that goes with it."""

from pathlib import Path

import pytest

from cloud.registry.config import RegistryConfig, load, parse
from shared.errors import Malformed
from tests.cloud.keyed_process import ROOT

EXAMPLE = ROOT / "firmware_configs" / "registry.toml"


def test_the_example_loads_and_says_the_defaults() -> None:
    config = load(EXAMPLE, {})
    folder = EXAMPLE.parent
    assert config.state_dir == folder / "registry"
    assert config.gateway.key_file == folder / "registry.keys"
    assert config.trust.online_keys == folder / "keys" / "online"
    plain = RegistryConfig()
    for part in ("catalog", "artifacts", "evaluation", "upkeep", "home", "peers"):
        assert getattr(config, part) == getattr(plain, part), part
    assert config.trust == plain.trust.model_copy(update={"online_keys": config.trust.online_keys})


def test_what_it_leaves_out_in_comments_loads_too(tmp_path: Path) -> None:
    text = EXAMPLE.read_text()
    path = tmp_path / "registry.toml"
    for marker in ("# [home]", "# [peers]"):
        text = text.replace(marker, marker[2:])
    lines = [
        line[2:] if line.startswith(("# urls", "# root", "# key_file")) else line
        for line in text.splitlines()
    ]
    path.write_text("\n".join(lines))
    config = load(path, {})
    assert config.home is not None
    assert config.home.root == tmp_path / "1.root.json"
    assert config.peers.key_file == tmp_path / "peers.key"


def test_the_command_line_goes_on_top(tmp_path: Path) -> None:
    path = tmp_path / "registry.toml"
    path.write_text('name = "a"\n[api]\nport = 1\nuploads_max = 3\n')
    config = load(path, {"name": "b", "api": {"port": 2}, "state_dir": Path("elsewhere")})
    assert (config.name, config.api.port, config.api.uploads_max) == ("b", 2, 3)
    assert config.state_dir == Path("elsewhere")
    assert load(path, {}).state_dir == tmp_path / "hybridge-registry"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nmae = 1", "nmae: no such setting"),
        ("[api]\nport = 99999", "api.port"),
        ('[api]\nhost = "0.0.0.0"', "lets other machines in"),
        ('name = "../x"', "name"),
        ("[trust]\ntimestamp_days = 0", "trust.timestamp_days"),
        ('[home]\nurls = ["ftp://x"]\nroot = "r"', "home.urls.0"),
        ("[evaluators]\nbackoff_s_min = 0", "evaluators.backoff_s_min"),
        ("not toml", "not TOML"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "registry.toml"
    path.write_text(text)
    with pytest.raises(Malformed, match=said):
        load(path, {})


def test_without_a_file() -> None:
    assert parse({}, "command line") == RegistryConfig()
    assert RegistryConfig().catalog_url == "sqlite:///hybridge-registry/catalog.db"
