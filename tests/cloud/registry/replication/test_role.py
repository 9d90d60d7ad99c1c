import pytest

from cloud.registry.replication.role import RegionRole, RoleFile
from cloud.registry.replication.role_settings import current_role, followed
from cloud.registry.replication.settings import HomeSettings, PeerSettings
from shared.errors import Malformed

HOME = HomeSettings(urls=("http://home", "http://other"), root="root.json")


def test_without_a_file_the_settings_decide(tmp_path):
    file = RoleFile(tmp_path)
    assert current_role(file, None).role == "home"
    assert current_role(file, HOME) == RegionRole(role="replica", homes=HOME.urls)


def test_what_was_switched_stands_over_the_settings(tmp_path):
    file = RoleFile(tmp_path)
    file.write(RegionRole(role="home", epoch=2))
    assert current_role(file, HOME).role == "home"


@pytest.mark.parametrize("content", [b"", b"{", b'{"role": "king"}', b'{"role": "home", "x": 1}'])
def test_a_damaged_role_is_never_guessed(tmp_path, content):
    file = RoleFile(tmp_path)
    file.path.write_bytes(content)
    with pytest.raises(Malformed, match=r"role\.json"):
        file.read()


def test_a_home_that_rejoined_follows_whom_it_was_told(tmp_path):
    role = RegionRole(role="replica", homes=("http://new",))
    peers = PeerSettings(urls=("http://peer",))
    found = followed(role, None, peers, tmp_path / "root.json")
    assert found.urls == ("http://new", "http://peer")
    assert found.root == tmp_path / "root.json"
    assert followed(role, HOME, peers, tmp_path).urls == (
        "http://new", "http://home", "http://other", "http://peer",
    )  # fmt: skip
    assert followed(RegionRole(role="replica", homes=HOME.urls), HOME, peers, tmp_path) is HOME


def test_a_replica_that_knows_of_no_home_says_so(tmp_path):
    with pytest.raises(Malformed, match=r"home\.urls"):
        followed(RegionRole(role="replica"), None, PeerSettings(), tmp_path)


@pytest.mark.parametrize(
    "url", ["home", "ftp://home", "http://", "http://a:b@home", "http://home?x=1", "http://h#f"]
)
def test_urls_that_are_none_are_refused(url):
    with pytest.raises(ValueError, match="urls"):
        HomeSettings(urls=(url,), root="r")
