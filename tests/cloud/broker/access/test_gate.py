"""Every way in, and every way to be refused."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloud.broker.access import passwords as password_file
from cloud.broker.access.acl import Acl
from cloud.broker.access.gate import Admission, Gate, PasswordCheck
from cloud.broker.access.identity import Identity
from cloud.broker.access.passwords import Passwords
from cloud.broker.access.rules import OPEN
from cloud.broker.codec.packets import Connect
from cloud.broker.codec.reasons import BrokenRule, ReasonCode
from shared.errors import Malformed

OWNER = ("owner", b"an owner's secret of some length")
ACL = Acl.parse("topic open\nuser ann\ntopic closed\npattern u/%u\npattern c/%c", "acl")
NOT_VALID = ReasonCode.CLIENT_IDENTIFIER_NOT_VALID
BAD = ReasonCode.BAD_USER_NAME_OR_PASSWORD
NO = ReasonCode.NOT_AUTHORIZED


def with_users(*users: str, text: str = "") -> str:
    for user in users:
        text = password_file.with_user(text, user, user.encode() + b"'s", bytes(16), "passwords")
    return text


TEXT = with_users("ann", "bob")
PASSWORDS = Passwords.parse(TEXT, "passwords")


def gate(
    passwords: Passwords | None = None, acl: Acl | None = ACL, *, anonymous: bool = False
) -> Gate:
    numbers = itertools.count(1)
    return Gate(
        passwords, acl, allow_anonymous=anonymous, owner=OWNER,
        new_client_id=lambda: f"new-{next(numbers)}",
    )  # fmt: skip


def refused(at: Gate, connect: Connect, certificate: str | None = None) -> ReasonCode:
    with pytest.raises(BrokenRule) as broken:
        found = at.identify(connect, certificate)
        assert isinstance(found, PasswordCheck)
        found.run()
    return broken.value.reason


def admitted(at: Gate, connect: Connect, certificate: str | None = None) -> Admission:
    """Let in at once, without a slow hash."""
    found = at.identify(connect, certificate)
    assert isinstance(found, Admission)
    return found


def checked(at: Gate, connect: Connect) -> Admission:
    found = at.identify(connect, None)
    assert isinstance(found, PasswordCheck)
    return found.run()


# passwords


def test_the_right_password_makes_an_identity() -> None:
    found = checked(gate(PASSWORDS), Connect("c1", username="ann", password=b"ann's"))
    assert found.identity == Identity("c1", "ann")
    assert (found.client_id, found.is_assigned) == ("c1", False)
    assert found.rules.may_publish("closed")
    assert found.rules.may_publish("u/ann")
    assert found.rules.may_publish("c/c1")
    assert not found.rules.may_publish("open")


@pytest.mark.parametrize("anonymous", [False, True])
@pytest.mark.parametrize(
    ("username", "password"),
    [("ann", b"bob's"), ("ann", b""), ("ann", None), ("eve", b"ann's"), ("eve", None), ("", b"")],
)
def test_wrong_credentials_never_become_anonymous(
    username: str, password: bytes | None, anonymous: bool
) -> None:
    at = gate(PASSWORDS, anonymous=anonymous)
    assert refused(at, Connect("c", username=username, password=password)) is BAD


def test_without_a_user_name_it_takes_allow_anonymous() -> None:
    assert refused(gate(PASSWORDS), Connect("c")) is BAD
    assert refused(gate(), Connect("c")) is BAD
    for passwords in (None, PASSWORDS):
        found = admitted(gate(passwords, anonymous=True), Connect("c", password=b"ann's"))
        assert found.identity == Identity("c", None)
        assert found.rules.may_publish("open")


def test_a_user_name_that_nothing_can_check_counts_for_nothing() -> None:
    connect = Connect("c", username="ann", password=b"ann's")
    found = admitted(gate(anonymous=True), connect)
    assert found.identity == Identity("c", None)
    assert not found.rules.may_publish("closed")
    assert not found.rules.may_publish("u/ann")
    assert refused(gate(), connect) is BAD


def test_a_verified_password_is_not_hashed_slowly_again() -> None:
    at = gate(PASSWORDS)
    checked(at, Connect("c", username="ann", password=b"ann's"))
    again = admitted(at, Connect("other", username="ann", password=b"ann's"))
    assert again.identity == Identity("other", "ann")


@pytest.mark.parametrize(
    ("username", "password"),
    [("ann", b"Ann's"), ("ann", b""), ("bob", b"ann's")],
)
def test_a_remembered_password_lets_no_other_pair_in(username: str, password: bytes) -> None:
    at = gate(PASSWORDS)
    checked(at, Connect("c", username="ann", password=b"ann's"))
    connect = Connect("c", username=username, password=password)
    assert isinstance(at.identify(connect, None), PasswordCheck)
    assert refused(at, connect) is BAD


def test_a_wrong_password_is_not_remembered_and_nothing_is_kept_in_clear() -> None:
    at = gate(PASSWORDS)
    refused(at, Connect("c", username="ann", password=b"wrong"))
    refused(at, Connect("c", username="eve", password=b"wrong"))
    assert not at._verified
    checked(at, Connect("c", username="ann", password=b"ann's"))
    assert list(at._verified) == ["ann"]
    assert b"ann's" not in at._verified["ann"]


def test_two_gates_share_no_memory_and_no_key() -> None:
    one, other = gate(PASSWORDS), gate(PASSWORDS)
    connect = Connect("c", username="ann", password=b"ann's")
    checked(one, connect)
    assert isinstance(other.identify(connect, None), PasswordCheck)
    other.check_password(connect)
    assert one._verified != other._verified


def test_checks_run_on_threads() -> None:
    at = gate(PASSWORDS)
    begin = threading.Barrier(4)

    def connect(number: int) -> bool:
        begin.wait()
        password = b"ann's" if number % 2 else b"wrong"
        try:
            found = at.identify(Connect(f"c{number}", username="ann", password=password), None)
            return (found.run() if isinstance(found, PasswordCheck) else found).client_id != ""
        except BrokenRule:
            return False

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(connect, range(4))) == [False, True, False, True]


# certificates


@pytest.mark.parametrize("client_id", ["cam-1", "cam-1/", "cam-1/a/b"])
def test_a_certificate_names_the_user_and_bounds_the_client_id(client_id: str) -> None:
    for username in (None, "cam-1"):
        found = admitted(gate(PASSWORDS), Connect(client_id, username=username), "cam-1")
        assert found.identity == Identity(client_id, "cam-1")
        assert not found.is_assigned
        assert found.rules.may_publish("u/cam-1")
        assert found.rules.may_publish("c/cam-1") is (client_id == "cam-1")


def test_an_empty_client_id_with_a_certificate_is_its_name() -> None:
    found = admitted(gate(), Connect(""), "cam-1")
    assert (found.client_id, found.is_assigned) == ("cam-1", True)
    assert found.identity == Identity("cam-1", "cam-1")


@pytest.mark.parametrize("client_id", ["cam-2", "cam-11", "cam-1x/a", "CAM-1", "cam", "/cam-1"])
def test_a_certificate_does_not_open_another_client_id(client_id: str) -> None:
    for anonymous in (False, True):
        at = gate(PASSWORDS, anonymous=anonymous)
        assert refused(at, Connect(client_id), "cam-1") is NOT_VALID


@pytest.mark.parametrize("username", ["cam-2", "ann", ""])
def test_a_certificate_does_not_speak_for_another_user(username: str) -> None:
    at = gate(PASSWORDS, anonymous=True)
    connect = Connect("cam-1", username=username, password=username.encode() + b"'s")
    assert refused(at, connect, "cam-1") is NO


@pytest.mark.parametrize("name", ["", "+", "#", "a/b", "a+", "a\n", "a\x7f", "a\x85b"])
def test_a_certificate_that_names_nobody_is_refused(name: str) -> None:
    for client_id in ("", name or "c"):
        at = gate(anonymous=True)
        expected = (
            NOT_VALID if any(ord(one) < 32 or 126 < ord(one) < 160 for one in client_id) else NO
        )
        assert refused(at, Connect(client_id), name) is expected


# the owner


@pytest.mark.parametrize("certificate", [None, "cam-1", ""])
def test_the_owner_may_use_any_client_id(certificate: str | None) -> None:
    for passwords in (None, PASSWORDS):
        connect = Connect("cam-2", username=OWNER[0], password=OWNER[1])
        found = admitted(gate(passwords), connect, certificate)
        assert found.identity == Identity("cam-2", "owner", is_owner=True)
        assert found.rules is OPEN


@pytest.mark.parametrize("password", [None, b"", OWNER[1][:-1], OWNER[1] + b"x"])
def test_the_owners_name_is_nobody_elses(password: bytes | None) -> None:
    passwords = Passwords.parse(with_users("owner"), "passwords")
    for at in (gate(passwords, anonymous=True), gate(anonymous=True)):
        for certificate in (None, "owner", "cam-1"):
            connect = Connect("c", username="owner", password=password)
            assert refused(at, connect, certificate) is BAD


@pytest.mark.parametrize("client_id", ["", "owner", "owner/x"])
def test_a_certificate_of_the_owners_name_is_refused(client_id: str) -> None:
    """Its bearer could resume what the owner left."""
    assert refused(gate(anonymous=True), Connect(client_id), "owner") is NO
    at = Gate(None, ACL, allow_anonymous=False, owner=None, new_client_id=str)
    assert admitted(at, Connect(client_id), "owner").identity.username == "owner"


def test_without_an_owner_its_name_is_like_any_other() -> None:
    at = Gate(None, ACL, allow_anonymous=True, owner=None, new_client_id=str)
    found = admitted(at, Connect("c", username="owner", password=b""))
    assert found.identity == Identity("c", None)


@pytest.mark.parametrize("secret", [b"", bytes(15)])
def test_a_secret_that_could_be_guessed_is_refused(secret: bytes) -> None:
    with pytest.raises(Malformed, match="at least 16"):
        Gate(None, None, allow_anonymous=True, owner=("owner", secret), new_client_id=str)


# client identifiers


def test_an_empty_client_id_gets_a_new_one() -> None:
    at = gate(PASSWORDS, anonymous=True)
    found = [
        admitted(at, Connect("")),
        checked(at, Connect("", username="ann", password=b"ann's")),
        admitted(at, Connect("", username=OWNER[0], password=OWNER[1])),
    ]
    assert [one.client_id for one in found] == ["new-1", "new-2", "new-3"]
    assert [one.identity.client_id for one in found] == ["new-1", "new-2", "new-3"]
    assert all(one.is_assigned for one in found)


@pytest.mark.parametrize("client_id", ["a\n", "\x01", "a\x1f", "\x7f", "a\x85b", "\x9f"])
def test_a_client_id_with_control_characters_is_refused(client_id: str) -> None:
    at = gate(PASSWORDS, anonymous=True)
    for more in ({}, {"username": "ann", "password": b"ann's"},
                 {"username": OWNER[0], "password": OWNER[1]}):  # fmt: skip
        assert refused(at, Connect(client_id, **more)) is NOT_VALID  # type: ignore[arg-type]


@pytest.mark.parametrize("client_id", ["x" * 65_535, "été ü", "a/b+#", "$SYS", " "])
def test_any_other_client_id_is_taken(client_id: str) -> None:
    assert admitted(gate(anonymous=True), Connect(client_id)).client_id == client_id


# later


def test_rules_for_sessions_of_the_store() -> None:
    at = gate(PASSWORDS)
    assert at.rules_for(Identity("c", "ann")).may_publish("closed")
    assert not at.rules_for(Identity("c", None)).may_publish("closed")
    assert at.rules_for(Identity("c", "x", is_owner=True)) is OPEN
    assert at.rules_for(Identity("c", "owner")) is OPEN, "the store keeps names only"
    strangers = Gate(PASSWORDS, ACL, allow_anonymous=False, owner=None, new_client_id=str)
    assert not strangers.rules_for(Identity("c", "owner")).may_publish("closed")
    assert gate(PASSWORDS, acl=None).rules_for(Identity("c", "ann")) is OPEN


def test_who_stays_when_the_files_are_read_anew() -> None:
    before = gate(PASSWORDS, anonymous=True)
    text = password_file.with_user(TEXT, "bob", b"changed", bytes(16), "passwords")
    after = gate(Passwords.parse(text, "passwords"))
    assert after.keeps(Identity("c", "ann"), None, before)
    assert not after.keeps(Identity("c", "bob"), None, before), "the password was changed"
    assert after.keeps(Identity("c", "bob"), "bob", before), "a certificate let it in"
    assert not after.keeps(Identity("c", None), None, before)
    assert after.keeps(Identity("c", "owner", is_owner=True), None, before)
    gone = gate(Passwords.parse(password_file.without_user(text, "ann", "p"), "passwords"))
    assert not gone.keeps(Identity("c", "ann"), None, after)
    assert not gate(anonymous=True).keeps(Identity("c", "ann"), None, after)
    assert not after.keeps(Identity("c", "eve"), None, before), "in neither file"


def test_who_may_resume_a_session() -> None:
    ann = Identity("c", "ann")
    assert ann.may_resume("ann")
    assert not ann.may_resume("bob")
    assert not ann.may_resume(None)
    assert not Identity("c", None).may_resume("ann")
    assert Identity("c", None).may_resume(None)
    assert not Identity("c", "owner", is_owner=True).may_resume("ann"), "or it would lose it"


texts = st.text(st.sampled_from("ann/owerb+#\x00\n"), max_size=6)


@settings(deadline=None)
@given(
    texts, st.none() | texts, st.none() | st.binary(max_size=6), st.none() | texts,
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_no_guess_becomes_anybody(
    client_id: str, username: str | None, password: bytes | None, certificate: str | None,
    anonymous: bool, has_file: bool,
) -> None:  # fmt: skip
    at = gate(PASSWORDS if has_file else None, anonymous=anonymous)
    connect = Connect(client_id, username=username, password=password)
    try:
        found = at.identify(connect, certificate)
    except BrokenRule:
        return
    if isinstance(found, PasswordCheck):
        assert has_file
        assert certificate is None
        return
    assert not found.identity.is_owner
    assert found.identity.username == certificate
    assert found.client_id
    assert certificate is not None or anonymous
    if certificate is not None:
        assert found.client_id == certificate or found.client_id.startswith(certificate + "/")


def test_client_ids_of_password_users_are_bound_if_asked() -> None:
    def ask(at: Gate, client_id: str) -> str:
        connect = Connect(client_id, username="ann", password=b"ann's")
        found = at.identify(connect, None)
        return (found.run() if isinstance(found, PasswordCheck) else found).client_id

    free, bound = (
        Gate(
            PASSWORDS, None, allow_anonymous=False, owner=None,
            new_client_id=lambda: "made-up", binds_client_ids=binds,
        )
        for binds in (False, True)
    )  # fmt: skip
    for _ in range(2):  # by the slow hash, then by the remembered one
        for client_id in ("ann", "ann/2"):
            assert ask(bound, client_id) == ask(free, client_id) == client_id
        for client_id in ("anna", "bob"):
            assert ask(free, client_id) == client_id
            with pytest.raises(BrokenRule) as caught:
                ask(bound, client_id)
            assert caught.value.reason is NOT_VALID
    assert (ask(bound, ""), ask(free, "")) == ("ann", "made-up")


def test_who_may_return() -> None:
    def at(**more: bool) -> Gate:
        owner = ("owner", bytes(32))
        return Gate(
            PASSWORDS, None, **{"allow_anonymous": False, **more}, owner=owner, new_client_id=str
        )

    assert at().may_return("ann")
    assert at().may_return("owner")
    assert not at().may_return("deleted")
    assert at(trusts_certificates=True).may_return("deleted")
    assert not at().may_return(None)
    assert at(allow_anonymous=True).may_return(None)
