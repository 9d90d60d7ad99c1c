"""Key and certificate on disk: they fit whenever the power goes, and nobody else reads the key."""

import itertools
import ssl
import stat
import time
from pathlib import Path

import pytest

from cloud.fleet.identity.ca import DeviceCa
from edge.identity import files
from edge.identity.files import identity_files, identity_paths, install, present
from edge.identity.key import new_key_and_request
from shared.errors import Malformed, Unavailable


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> DeviceCa:
    return DeviceCa.create(tmp_path_factory.mktemp("region") / "ca", "lyon", time.time())


def pair(ca: DeviceCa) -> tuple[bytes, bytes, bytes]:
    key, request = new_key_and_request("cam-1")
    made = ca.issue(request, "cam-1", time.time(), 90)
    return key, made.pem.encode(), ca.servers_pem.encode()


def fits(state_dir: Path) -> str:
    """The serial of the current certificate, which its key fits."""
    found, own = identity_files(state_dir), present(state_dir)
    assert found is not None
    assert own is not None
    ssl.create_default_context(cafile=found.ca).load_cert_chain(found.certificate, found.key)
    return own.serial


def test_a_device_that_is_not_enrolled_has_none_but_knows_where_they_will_be(
    tmp_path: Path,
) -> None:
    assert identity_files(tmp_path) is None
    assert present(tmp_path) is None
    assert identity_paths(tmp_path).key == tmp_path / "identity" / "current" / "key.pem"


def test_what_was_installed_is_current_and_the_key_is_private(tmp_path: Path, ca: DeviceCa) -> None:
    made = install(tmp_path, *pair(ca))
    assert fits(tmp_path) == made.serial
    assert made.device == "cam-1"
    assert stat.S_IMODE(identity_paths(tmp_path).key.stat().st_mode) == 0o600


def test_the_one_before_stays_and_older_keys_go(tmp_path: Path, ca: DeviceCa) -> None:
    serials = [install(tmp_path, *pair(ca)).serial for _ in range(4)]
    assert fits(tmp_path) == serials[-1]
    left = {one.name for one in (tmp_path / "identity").iterdir()}
    assert left == {"current", *serials[-2:]}


def test_wherever_the_power_goes_key_and_certificate_fit(
    tmp_path: Path, ca: DeviceCa, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every step that changes the disk is the last one once; then the agent starts again."""

    class PowerCut(BaseException):
        pass

    steps = [(files, "write_whole"), (files, "sync_folder"), (files.shutil, "rmtree"),
             (Path, "symlink_to"), (Path, "replace"), (Path, "mkdir"), (Path, "unlink")]  # fmt: skip
    for cut in itertools.count():
        state_dir = tmp_path / str(cut)
        before, new, left = install(state_dir, *pair(ca)).serial, pair(ca), cut

        def counted(real):
            def step(*args, **more):
                nonlocal left
                if not left:
                    raise PowerCut
                left -= 1
                return real(*args, **more)

            return step

        with monkeypatch.context() as patch:
            for owner, name in steps:
                patch.setattr(owner, name, counted(getattr(owner, name)))
            try:
                install(state_dir, *new)
            except PowerCut:
                went_through = False
            else:
                went_through = True
        after = files.described(new[1], "").serial
        assert fits(state_dir) in ({after} if went_through else {before, after})
        assert install(state_dir, *pair(ca)).serial == fits(state_dir)  # and goes on
        if went_through:
            break
    assert cut >= 8  # each step was the last one once


def test_a_certificate_for_another_key_changes_nothing(tmp_path: Path, ca: DeviceCa) -> None:
    before = install(tmp_path, *pair(ca)).serial
    key, _, own_ca = pair(ca)
    _, certificate, _ = pair(ca)
    for wrong in ((key, certificate, own_ca), (b"x", certificate, own_ca), (key, b"x", own_ca)):
        with pytest.raises(Malformed):
            install(tmp_path, *wrong)
    with pytest.raises(Malformed):
        install(tmp_path, *pair(ca)[:2], b"no PEM")
    assert fits(tmp_path) == before


def test_a_folder_that_cannot_be_written_leaves_what_was(tmp_path: Path, ca: DeviceCa) -> None:
    (tmp_path / "identity").write_text("a file in its place")
    with pytest.raises(Unavailable):
        install(tmp_path, *pair(ca))


def test_a_damaged_certificate_is_said(tmp_path: Path, ca: DeviceCa) -> None:
    install(tmp_path, *pair(ca))
    identity_paths(tmp_path).certificate.write_text("x")
    with pytest.raises(Malformed, match="enrol again"):
        present(tmp_path)
