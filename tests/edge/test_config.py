from pathlib import Path

import pytest

from edge.config import Config, load
from edge.sensing.settings import FolderSource, ReplaySource
from shared.errors import Malformed
from shared.ids import device_id

MINIMAL = 'device_id = "cam-1"\nstate_dir = "state"\nbundle = "model.hyb"\n'


def read(folder: Path, more: str = "", text: str = MINIMAL) -> Config:
    (file := folder / "agent.toml").write_text(text + more)
    return load(file)


def test_the_minimum_is_enough_and_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    config = read(tmp_path)
    assert config.state_dir == tmp_path / "state"
    assert config.bundle == tmp_path / "model.hyb"
    assert config.uplink is None
    assert config.deadlines.full_ms == 1000


def test_sources_are_told_apart_by_kind(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        '[[sources]]\nkind = "folder"\npath = "in"\nafter = "delete"\n'
        '[[sources]]\nkind = "replay"\npath = "/data/test.npz"\nshard = "1/3"\n',
    )
    folder, replay = config.sources
    assert isinstance(folder, FolderSource)
    assert (folder.path, folder.after) == (tmp_path / "in", "delete")
    assert isinstance(replay, ReplaySource)
    assert (str(replay.path), replay.part) == ("/data/test.npz", (1, 3))


def test_the_uplink_becomes_link_settings_and_the_password_stays_out_of_sight(
    tmp_path: Path,
) -> None:
    config = read(
        tmp_path,
        '[uplink]\nurl = "mqtts://broker.example"\nusername = "u"\npassword = "s3cret"\n'
        'ca = "ca.pem"\n',
    )
    assert config.uplink is not None
    link = config.uplink.link_settings(device_id("cam-1"))
    assert (link.host, link.port, link.tls, link.password) == (
        "broker.example", 8883, True, "s3cret",
    )  # fmt: skip
    assert link.tls_ca == str(tmp_path / "ca.pem")
    assert "s3cret" not in repr(config)


IDENTITY = '[identity]\nurl = "https://fleet.example:8720"\n'


def test_an_identity_gives_the_uplink_its_certificate_where_it_has_none(tmp_path: Path) -> None:
    config = read(tmp_path, IDENTITY + '[uplink]\nurl = "mqtts://broker.example"\n')
    link, at = config.link_settings(), tmp_path / "state" / "identity" / "current"
    assert (link.tls_certificate, link.tls_key, link.tls_ca) == (
        str(at / "certificate.pem"), str(at / "key.pem"), str(at / "ca.pem"),
    )  # fmt: skip


def test_an_uplinks_own_certificate_and_authority_come_first(tmp_path: Path) -> None:
    own = 'certificate = "c.pem"\nkey = "k.pem"\nca = "ca.pem"\n'
    link = read(tmp_path, f'{IDENTITY}[uplink]\nurl = "mqtts://x"\n{own}').link_settings()
    assert link.tls_certificate == str(tmp_path / "c.pem")
    link = read(tmp_path, f'{IDENTITY}[uplink]\nurl = "mqtts://x"\nca = "ca.pem"\n').link_settings()
    assert link.tls_ca == str(tmp_path / "ca.pem")


def test_an_identity_changes_nothing_on_a_link_without_tls(tmp_path: Path) -> None:
    link = read(tmp_path, IDENTITY + '[uplink]\nurl = "mqtt://x"\n').link_settings()
    assert (link.tls_certificate, link.tls_ca) == (None, None)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("[routing]\naudit_shar = 0.1", "routing.audit_shar: no such setting; check its spelling"),
        ("[routing]\naudit_share = 2", "routing.audit_share: .* less than or equal to 1"),
        ('[routing]\nthreshold = "a"\nconfidence_min = 0.5', "routing: set threshold or"),
        ("[deadlines]\nfull_ms = 1", "deadlines: deadlines must rise"),
        ('[uplink]\nurl = "http://x"', "uplink: broker url: want mqtt://"),
        ('[uplink]\nurl = "mqtt://x/topic"', "uplink: broker url: want mqtt://"),
        ('[uplink]\nurl = "mqtt://x:many"', "uplink: broker url: want mqtt://"),
        ('[uplink]\nurl = "mqtt://u:s3cret@x"', "uplink: url: put credentials into username"),
        ('[uplink]\nurl = "mqtt://x"\nkey = "k.pem"', "uplink: certificate and key come together"),
        ('[uplink]\nurl = "mqtt://x"\npassword = 7', "uplink.password: .* valid string"),
        ('[[sources]]\nkind = "camera"\npath = "x"', r"sources.0: .*'folder', 'replay'"),
        (
            '[[sources]]\nkind = "replay"\npath = "x"\nshard = "3/3"',
            "sources.0.replay: shard '3/3'",
        ),
        ("[api]\nport = 70000", "api.port: "),
        ("[fleet]\n", "fleet: needs uplink, by which the region is reached"),
        (
            '[uplink]\nurl = "mqtt://x"\n[fleet]\ntelemetry_s = 0',
            "fleet.telemetry_s: .* equal to 1",
        ),
        (
            '[uplink]\nurl = "mqtt://x"\n[fleet]\nlabels = {a = "b"}',
            "fleet.labels: no such setting",
        ),
        ("= 3", "not TOML: "),
    ],
)
def test_a_mistake_is_one_line_that_says_where_and_what(
    tmp_path: Path, more: str, said: str
) -> None:
    with pytest.raises(Malformed, match=said) as caught:
        read(tmp_path, more)
    text = str(caught.value)
    assert text.startswith(str(tmp_path / "agent.toml"))
    assert "\n" not in text
    assert "s3cret" not in text


def test_a_device_id_that_is_no_topic_level_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Malformed, match="device id 'a/b': use 1 to 64"):
        read(tmp_path, text=MINIMAL.replace("cam-1", "a/b"))


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(Malformed, match="state_dir: is missing; set it; bundle: is missing"):
        read(tmp_path, text='device_id = "cam-1"\n')


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Malformed, match="No such file or directory; name a readable TOML file"):
        load(tmp_path / "none.toml")


def test_every_setting_says_what_it_is() -> None:
    undocumented = list[str]()

    def look(model: type[object], where: str) -> None:
        for name, field in getattr(model, "model_fields", {}).items():
            if not field.description and name != "kind":
                undocumented.append(f"{where}.{name}")
            look(field.annotation, f"{where}.{name}")

    look(Config, "config")
    look(FolderSource, "folder")
    look(ReplaySource, "replay")
    assert undocumented == []
