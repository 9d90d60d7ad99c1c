"""Keys in files, and the ceremony that makes the first ones."""

import os
import stat
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from cloud.registry.trust.ceremony import initialise
from cloud.registry.trust.keys import (
    PASSWORD_VARIABLE,
    create_key,
    load_public,
    load_signer,
    load_signers,
    read_password,
)
from cloud.registry.trust.settings import TrustSettings
from shared.errors import Conflict, Malformed, NotTrusted, Unavailable, Unknown
from shared.trust.chain import Chain, epoch_of
from tests.shared.trust.site import NOW

SECRET = b"correct horse"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("password", [None, SECRET])
def test_a_key_is_read_back_and_nobody_else_may_read_it(
    tmp_path: Path, password: bytes | None
) -> None:
    path = tmp_path / "keys" / "targets.pem"
    made = create_key(path, password)
    assert mode(path) == 0o600
    assert mode(path.parent) == 0o700
    assert load_signer(path, password).public_key == made.public_key
    assert load_public(path.with_suffix(".pub")) == made.public_key
    text = path.read_text()
    assert text.startswith(
        "-----BEGIN ENCRYPTED PRIVATE KEY" if password else "-----BEGIN PRIVATE KEY"
    )


def test_openssl_reads_the_files(tmp_path: Path) -> None:
    create_key(tmp_path / "a.pem", None)
    for arguments in (["-in", "a.pem"], ["-pubin", "-in", "a.pub"]):
        shown = subprocess.run(
            ["openssl", "pkey", "-noout", "-text", *arguments],
            cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert "ED25519" in shown.stdout


@pytest.mark.parametrize("bits", [0o640, 0o604, 0o660, 0o777])
def test_a_key_that_others_may_read_is_refused(tmp_path: Path, bits: int) -> None:
    create_key(tmp_path / "a.pem", None)
    (tmp_path / "a.pem").chmod(bits)
    with pytest.raises(NotTrusted, match=rf"others may read it \(mode {bits:04o}\); chmod 600"):
        load_signer(tmp_path / "a.pem", None)


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    create_key(tmp_path / "a.pem", None)
    before = (tmp_path / "a.pem").read_bytes()
    with pytest.raises(Conflict, match="never overwritten"):
        create_key(tmp_path / "a.pem", None)
    assert (tmp_path / "a.pem").read_bytes() == before


def test_a_password_that_is_missing_wrong_or_needless_is_said(tmp_path: Path) -> None:
    locked, plain = tmp_path / "locked.pem", tmp_path / "plain.pem"
    create_key(locked, SECRET)
    create_key(plain, None)
    for path, password, said in (
        (locked, None, "needs a password; it is read from the password file"),
        (locked, b"wrong", "the password is wrong"),
        (plain, SECRET, "needs no password"),
    ):
        with pytest.raises(Malformed, match=said) as refused:
            load_signer(path, password)
        assert "wrong" not in str(refused.value).replace("password is wrong", "")
        assert SECRET.decode() not in str(refused.value)


def test_other_files_are_no_keys(tmp_path: Path) -> None:
    def write(name: str, content: bytes) -> Path:
        path = tmp_path / name
        path.touch(mode=0o600)
        path.write_bytes(content)
        return path

    rsa = generate_private_key(65537, 2048)
    pem = rsa.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(Malformed, match="not an Ed25519 key"):
        load_signer(write("rsa.pem", pem), None)
    for content in (b"", b"no key", b"\0" * 100_000):
        with pytest.raises(Malformed, match="PKCS#8 PEM"):
            load_signer(write("a.pem", content), None)
    with pytest.raises(Malformed, match="no public key"):
        load_public(tmp_path / "a.pem")
    with pytest.raises(Unknown, match="No such file"):
        load_signer(tmp_path / "none.pem", None)
    with pytest.raises(Unknown, match="No such file"):
        load_public(tmp_path / "none.pub")
    os.mkfifo(tmp_path / "pipe.pem", 0o600)
    with pytest.raises(NotTrusted, match="no plain file"):
        load_signer(tmp_path / "pipe.pem", None)
    with pytest.raises(Malformed, match=r"0 keys \(\*\.pem\)"):
        load_signers(tmp_path / "nowhere", None)


def test_a_password_comes_from_a_file_or_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_bytes(SECRET + b"\r\nanother line\n")
    file.chmod(0o600)
    environment = {PASSWORD_VARIABLE: "other"}
    assert read_password(file, environment) == SECRET
    assert read_password(None, environment) == b"other"
    assert read_password(None, {}) is None
    file.chmod(0o644)
    with pytest.raises(NotTrusted, match="others may read it"):
        read_password(file, {})
    file.chmod(0o600)
    file.write_bytes(b"\n")
    with pytest.raises(Malformed, match="its first line is empty"):
        read_password(file, {})


def test_the_ceremony_makes_two_of_three_root_keys_and_apart_from_them_the_online_ones(
    tmp_path: Path,
) -> None:
    made = initialise(tmp_path / "keys", NOW, password=SECRET)
    assert sorted(path.name for path in made.folder.glob("*.pem")) == [
        "release.pem", "root-1.pem", "root-2.pem", "root-3.pem", "targets.pem",
    ]  # fmt: skip
    assert set(load_signers(made.online, None)) == {
        load_public(made.online / f"{role}.pub").keyid for role in ("snapshot", "timestamp")
    }
    root = Chain(made.root).root
    assert (len(root.roles["root"].keyids), root.roles["root"].threshold) == (3, 2)
    assert epoch_of(root) == 1
    assert root.consistent_snapshot
    assert (made.folder / "1.root.json").read_bytes() == made.root
    with pytest.raises(Conflict, match="name an empty folder"):
        initialise(tmp_path / "keys", NOW)
    with pytest.raises(Malformed, match="3 of 2 keys"):
        initialise(tmp_path / "more", NOW, root_keys=2, root_threshold=3)
    assert not (tmp_path / "more").exists()


def test_a_folder_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Unavailable):
        create_key(tmp_path / "file" / "a.pem", None)


def test_a_timestamp_is_replaced_before_it_ends() -> None:
    with pytest.raises(ValueError, match="a new one would be signed all the time"):
        TrustSettings(timestamp_days=2, timestamp_left_days=2)
