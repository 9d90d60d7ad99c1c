"""The password file: known vectors, hostile lines, edits that keep everything else."""

import base64
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloud.broker.access.passwords import (
    MEMORY_BYTES_MAX,
    WORK_MAX,
    Passwords,
    check_username,
    with_user,
    without_user,
)
from shared.errors import Malformed, Unknown

SALT = bytes(range(16))
PASSLIB = "$scrypt$ln=16,r=8,p=1$aM15713r3Xsvxbi31lqr1Q$nFNh2CVHVjNldFVKDHDlm4CbdRSCdEBsjjJxD+iCs5E"
"""The example of passlib's manual, of the password `password`."""


def b64(value: bytes) -> str:
    return base64.b64encode(value).decode().rstrip("=")


def line(user: str = "ann", ln: str = "14", r: str = "8", p: str = "1", **parts: bytes) -> str:
    salt = parts.get("salt", SALT)
    digest = parts.get("digest", bytes(32))
    return f"{user}:$scrypt$ln={ln},r={r},p={p}${b64(salt)}${b64(digest)}"


@pytest.fixture(scope="module")
def written() -> str:
    return with_user("", "ann", b"secret", SALT, "passwords")


def test_a_line_of_passlib_is_read() -> None:
    passwords = Passwords.parse(f"ann:{PASSLIB}\n", "passwords")
    assert passwords.verify("ann", b"password")
    assert not passwords.verify("ann", b"Password")


def test_the_vector_of_rfc_7914() -> None:
    digest = bytes.fromhex(
        "7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2"
        "d5432955613f0fcf62d49705242a9af9e61e85dc0d651e40dfcf017b45575887"
    )
    text = line("a", salt=b"SodiumChloride", digest=digest)
    assert Passwords.parse(text, "passwords").verify("a", b"pleaseletmein")


def test_what_is_written_is_read(written: str) -> None:
    assert written.startswith("ann:$scrypt$ln=14,r=8,p=1$AAECAwQFBgcICQoLDA0ODw$")
    passwords = Passwords.parse(written, "passwords")
    assert passwords.verify("ann", b"secret")
    for wrong in (b"", b"Secret", b"secret ", b"\0secret"):
        assert not passwords.verify("ann", wrong)
    for other in ("Ann", "bob", "", "ann "):
        assert not passwords.verify(other, b"secret")


def test_a_file_without_users_lets_nobody_in() -> None:
    assert not Passwords.parse("# none yet\n\n", "passwords").verify("ann", b"")


@pytest.mark.parametrize("text", ["", line(ln="15"), line("bob", ln="12") + "\n" + line(ln="15")])
def test_an_unknown_user_costs_as_much_as_the_dearest(text: str) -> None:
    passwords = Passwords.parse(text, "passwords")
    dearest = Passwords.parse(line(ln="15" if text else "14"), "passwords")

    def cpu_s(which: Passwords, user: str) -> float:
        begun = time.thread_time()
        assert not which.verify(user, b"guess")
        return time.thread_time() - begun

    known = min(cpu_s(dearest, "ann") for _ in range(3))
    unknown = min(cpu_s(passwords, "eve") for _ in range(3))
    assert 0.5 < unknown / known < 2


@pytest.mark.parametrize(
    ("bad", "what_to_do"),
    [
        ("ann", "want 'user:"),
        ("ann:", "want \\$scrypt"),
        ("ann:secret", "want \\$scrypt"),
        ("ann:$7$101$cnVi$aGFzaA==", "mosquitto_passwd"),
        ("ann:$scrypt$ln=14,r=8,p=1$AAAAAAAAAAAAAAAAAAAAAA", "want \\$scrypt"),
        (line() + "=", "want \\$scrypt"),
        (line() + "$x", "want \\$scrypt"),
        (line(ln="-4"), "want \\$scrypt"),
        (line(ln="١٤"), "want \\$scrypt"),
        (line(ln="9"), "ln is at least 10"),
        (line(ln="0"), "ln is at least 10"),
        (line(r="0"), "r and p at least 1"),
        (line(p="0"), "r and p at least 1"),
        (line(ln="17"), "over 64 MB"),
        (line(ln="99"), "over 64 MB"),
        (line(ln="14", r="40"), "over 64 MB"),
        (line(ln="14", p="9"), "over 64 MB or 0.3 s"),
        (line(r="99", p="99"), "over 64 MB"),
        (line(ln="999"), "want \\$scrypt"),
        (line(salt=bytes(7)), "8 to 64 bytes of salt"),
        (line(salt=bytes(65)), "8 to 64 bytes of salt"),
        (line(digest=bytes(31)), "32 to 64 of hash"),
        (line(digest=bytes(65)), "32 to 64 of hash"),
        ("ann:$scrypt$ln=14,r=8,p=1$AAAAAAAAAAAAAAAAAAAAA$" + "A" * 43, "not base64"),
        (line(user=""), "is empty"),
        (line(user=" ann"), "no spaces around"),
        (line(user="a\x07nn"), "control character"),
        (line(user="a\x85nn"), "control character"),
        (line(user="a\u2028nn"), "control character"),
        (line("zoe"), "second time"),
    ],
)
def test_a_bad_line_is_named(bad: str, what_to_do: str) -> None:
    with pytest.raises(Malformed, match=what_to_do) as refused:
        Passwords.parse(f"# first\n{line('zoe')}\n{bad}\n", "site/passwords")
    assert str(refused.value).startswith("site/passwords, line 3: ")
    assert b64(bytes(32)) not in str(refused.value)


def test_the_dearest_line_that_is_taken_still_works() -> None:
    for text in (line(ln="16", r="8", p="2"), line(ln="10", r="32", p="32")):
        [entry] = Passwords.parse(text, "passwords").entries.values()
        assert entry.memory_bytes <= MEMORY_BYTES_MAX
        assert entry.work <= WORK_MAX
        assert not entry.verify(b"guess")


def test_adding_and_changing_keep_all_else(written: str) -> None:
    text = f"# the site's\r\n{line('bob')}\n\n# last, no line end\n{written.rstrip()}"
    added = with_user(text, "zoe", b"z", SALT, "passwords")
    assert added.startswith(text + "\nzoe:$scrypt$")
    assert added.endswith("\n")
    changed = with_user(added, "bob", b"new", SALT, "passwords")
    assert changed.splitlines()[0] == "# the site's"
    assert [one.partition(":")[0] for one in changed.splitlines()] == [
        "# the site's", "bob", "", "# last, no line end", "ann", "zoe",
    ]  # fmt: skip
    assert Passwords.parse(changed, "passwords").verify("bob", b"new")


def test_deleting_keeps_all_else() -> None:
    text = f"# ann:\n{line('ann')}\n{line('anna')}\n"
    assert without_user(text, "ann", "passwords") == f"# ann:\n{line('anna')}\n"
    with pytest.raises(Unknown, match="no user 'bob'; nothing was changed"):
        without_user(text, "bob", "passwords")
    with pytest.raises(Unknown):
        without_user(text, "# ann", "passwords")


@pytest.mark.parametrize("password", [b"", bytes(65_536)])
def test_a_password_that_no_connect_carries_is_refused(password: bytes) -> None:
    with pytest.raises(Malformed, match="1 to 65535 bytes"):
        with_user("", "ann", password, SALT, "passwords")


@pytest.mark.parametrize("name", ["", "a:b", "#a", " a", "a ", "a\n", "a\0", "a\x9f", "\ud800"])
def test_a_user_name_that_cannot_stand_in_the_file_is_refused(name: str) -> None:
    with pytest.raises(Malformed):
        with_user("", name, b"x", SALT, "passwords")


def test_a_broken_file_is_not_made_longer() -> None:
    with pytest.raises(Malformed, match="passwords, line 1"):
        with_user("broken\n", "ann", b"x", SALT, "passwords")
    with pytest.raises(Malformed, match="passwords, line 1"):
        without_user("broken\n", "ann", "passwords")


users = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
noise = st.text(st.sampled_from("ab:#$ \n\r,=0189lnrpscyt"), max_size=40)


@settings(deadline=None)
@given(st.lists(users, max_size=4), noise)
def test_any_text_is_a_file_or_malformed(found: list[str], more: str) -> None:
    text = "\n".join([*(line(user) for user in found), more])
    try:
        entries = Passwords.parse(text, "passwords").entries
    except Malformed:
        return
    for user in list(entries):
        check_username(user, "here")
        left = Passwords.parse(without_user(text, user, "passwords"), "passwords").entries
        assert left == {name: entry for name, entry in entries.items() if name != user}
