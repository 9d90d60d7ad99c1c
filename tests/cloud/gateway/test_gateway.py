"""The whole gateway over real files, keys and tokens; times are given."""

import asyncio
import logging
import secrets
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from cloud.gateway.api_key import ApiKey, make_key
from cloud.gateway.counts import GatewayCounts
from cloud.gateway.gateway import Gateway
from cloud.gateway.key_file import KeyLine, with_key
from cloud.gateway.refusals import RateLimited, Reason, Untrusted
from cloud.gateway.roles import Role
from cloud.gateway.settings import GatewaySettings
from cloud.gateway.trusted import read_revoked
from shared.errors import Forbidden, Malformed, NotTrusted, TooLarge, Unavailable, Unknown
from tests.cloud.gateway.issuing import AT, AUDIENCE, ISSUER, Signer, jwks_file
from tests.cloud.gateway.waiting import until

NOW = 5000.0
ONE = Signer("one")


def add_key(path: Path, name: str = "line-3", **more) -> ApiKey:
    key = make_key(secrets.choice)
    line = KeyLine(id=key.id, name=name, sha256=key.digest.hex(), **{"roles": ("infer",), **more})
    path.write_text(with_key(path.read_text() if path.exists() else "", line, "f"))
    path.chmod(0o600)
    return key


class House:
    """A gateway with a key file and an issuer's file, and a wall clock that is set by hand."""

    def __init__(self, folder: Path, **more) -> None:
        self.folder = folder
        self.key_file = folder / "keys.jsonl"
        self.key = add_key(self.key_file)
        self.issuer_file = jwks_file(folder / "jwks.json", ONE)
        self.registry = CollectorRegistry()
        self.unix = AT
        self.settings = GatewaySettings.model_validate({
            "key_file": self.key_file,
            "tokens": {
                "issuer": ISSUER, "audience": AUDIENCE, "keys_file": self.issuer_file,
                **more.pop("tokens", {}),
            },
            **more,
        })  # fmt: skip
        self.counts = GatewayCounts(self.registry)
        self.gateway = Gateway(self.settings, self.counts, wall=lambda: self.unix)

    def bearer(self, text: str, now: float = NOW, **more):
        return self.gateway.admit(f"Bearer {text}", None, now, **more)

    def refusal(self, authorization, api_key=None, now: float = NOW, **more) -> Reason:
        with pytest.raises(Untrusted) as refused:
            self.gateway.admit(authorization, api_key, now, **more)
        return refused.value.reason

    async def read_again(self) -> None:
        """Tell it to read its files, and wait until it has."""
        task = asyncio.create_task(self.gateway.run())
        before = self.gateway._by_key
        self.gateway.read_again()
        await until(lambda: self.gateway._by_key is not before)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_a_key_comes_in_by_either_header(house):
    for caller in (
        house.gateway.admit(None, house.key.text, NOW),
        house.bearer(house.key.text),
        house.gateway.admit(f"bEARER  {house.key.text} ", None, NOW),
    ):
        assert caller.name == "line-3"
        caller.require(Role.INFER)
        with pytest.raises(Forbidden, match="line-3 may not do this: it needs the role operate"):
            caller.require(Role.OPERATE)


def test_a_token_comes_in_as_bearer(house):
    caller = house.bearer(ONE.token(sub="robot 7", roles=["operate"]))
    assert caller.name == "robot 7"
    caller.require(Role.OBSERVE)
    with pytest.raises(Forbidden):
        caller.require(Role.INFER)
    house.bearer(ONE.token(roles=[])).spend(NOW)  # known, and may do nothing


@pytest.mark.parametrize(
    ("authorization", "api_key", "reason"),
    [
        (None, None, Reason.NO_CREDENTIALS),
        ("", None, Reason.WRONG_SCHEME),
        ("Bearer", None, Reason.WRONG_SCHEME),
        ("Basic YTpi", None, Reason.WRONG_SCHEME),
        ("Bearer ", None, Reason.WRONG_SCHEME),
        ("Bearer x", None, Reason.UNREADABLE),
        ("Bearer hy_", None, Reason.UNREADABLE),
        (None, "", Reason.UNREADABLE),
        (None, "x", Reason.UNREADABLE),
        (None, "Bearer hy_", Reason.UNREADABLE),
        ("Bearer x", "y", Reason.TWO_CREDENTIALS),
        ("", "", Reason.TWO_CREDENTIALS),
    ],
)
def test_what_is_no_credential_is_refused_by_its_reason(house, authorization, api_key, reason):
    assert house.refusal(authorization, api_key) is reason


def test_two_good_credentials_are_one_too_many(house):
    house.bearer(house.key.text)
    house.gateway.admit(None, house.key.text, NOW)
    assert house.refusal(f"Bearer {house.key.text}", house.key.text) is Reason.TWO_CREDENTIALS


def test_a_key_as_it_is_in_authorization_needs_its_scheme_seen_before_or_not(house):
    house.gateway.admit(None, house.key.text, NOW)
    assert house.refusal(house.key.text) is Reason.WRONG_SCHEME
    header = f"Bearer {house.key.text}"
    house.gateway.admit(header, None, NOW)
    assert house.refusal(None, header) is Reason.UNREADABLE


def test_a_token_in_the_key_header_is_no_key(house):
    assert house.refusal(None, ONE.token()) is Reason.UNREADABLE


def test_an_unknown_and_a_forged_key_are_told_apart_by_us_only(house):
    stranger = make_key(secrets.choice)
    assert house.refusal(None, stranger.text) is Reason.UNKNOWN_KEY
    pool = iter(house.key.id)
    forged = make_key(lambda letters: next(pool, None) or secrets.choice(letters))
    assert forged.id == house.key.id
    assert house.refusal(None, forged.text) is Reason.FORGED_KEY
    words = set()
    for key in (stranger, forged):
        with pytest.raises(NotTrusted) as refused:
            house.gateway.admit(None, key.text, NOW)
        words.add(str(refused.value))
    assert len(words) == 1


def test_a_key_ends_while_it_is_remembered(house):
    ends = datetime.fromtimestamp(AT + 100, UTC)
    key = add_key(house.key_file, "short", expires=ends)
    house.gateway = Gateway(house.settings, GatewayCounts(CollectorRegistry()), lambda: house.unix)
    house.bearer(key.text)
    house.unix += 99
    house.bearer(key.text, NOW + 99)
    house.unix += 1
    assert house.refusal(f"Bearer {key.text}", now=NOW + 100) is Reason.EXPIRED_KEY


def test_a_token_ends_while_it_is_remembered(house):
    token = ONE.token(exp=AT + 100)
    caller = house.bearer(token)
    house.unix += 129
    assert house.bearer(token, NOW + 129) is caller  # from memory
    house.unix += 1
    assert house.refusal(f"Bearer {token}", now=NOW + 130) is Reason.EXPIRED_TOKEN


def test_whoever_was_seen_is_looked_at_again_after_a_while(house):
    caller = house.bearer(house.key.text)
    late = NOW + house.settings.seen_s_max
    assert house.bearer(house.key.text, late - 1) is caller
    again = house.bearer(house.key.text, late)
    assert again is not caller
    assert again.budget is caller.budget  # what was spent stays spent


def test_a_token_that_lasts_long_is_looked_at_again_too(house):
    token = ONE.token(exp=AT + 1e6)
    caller = house.bearer(token)
    late = NOW + house.settings.seen_s_max
    assert house.bearer(token, late - 1) is caller
    assert house.bearer(token, late) is not caller


def test_tokens_of_one_subject_share_a_budget_and_those_of_others_do_not(tmp_path):
    house = House(tmp_path, rate="2/minute")
    first, second = house.bearer(ONE.token()), house.bearer(ONE.token(jti="other"))
    first.spend(NOW)
    second.spend(NOW)
    for caller in (first, second):
        with pytest.raises(RateLimited):
            caller.spend(NOW)
    house.bearer(ONE.token(sub="another")).spend(NOW)


def test_a_keys_own_limits_go_before_the_gateways(tmp_path):
    house = House(tmp_path, rate="1/hour", body_bytes_max=100, in_hand_max=5)
    own = add_key(house.key_file, "own", rate="3/hour", body_bytes_max=50, in_hand_max=1)
    house.gateway = Gateway(house.settings, GatewayCounts(CollectorRegistry()), lambda: house.unix)
    caller = house.bearer(own.text)
    caller.check_body(50)
    with pytest.raises(TooLarge, match="a body of 51 bytes; yours may have 50"):
        caller.check_body(51)
    with caller.working(), pytest.raises(RateLimited):
        caller.begin()
    caller.begin()
    caller.end()
    for _ in range(3):
        caller.spend(NOW)
    with pytest.raises(RateLimited):
        caller.spend(NOW)
    common = house.bearer(house.key.text)
    common.check_body(100)
    common.spend(NOW)
    with pytest.raises(RateLimited):
        common.spend(NOW)


def test_an_open_gateway_lets_everybody_do_everything():
    gateway = Gateway(GatewaySettings(), GatewayCounts(CollectorRegistry()))
    for authorization, api_key in ((None, None), ("Bearer x", None), (None, "y")):
        caller = gateway.admit(authorization, api_key, NOW)
        assert caller.name == "anonymous"
        for role in Role:
            caller.require(role)


def test_anonymous_callers_beside_keys_may_do_what_is_said_and_a_bad_key_is_still_bad(tmp_path):
    house = House(tmp_path, allow_anonymous=True, anonymous_roles=["observe"], rate="1/hour")
    caller = house.gateway.admit(None, None, NOW)
    caller.require(Role.OBSERVE)
    with pytest.raises(Forbidden):
        caller.require(Role.INFER)
    assert house.refusal("Bearer x") is Reason.UNREADABLE
    assert house.refusal(None, "x") is Reason.UNREADABLE
    assert house.refusal("Bearer x", "x") is Reason.TWO_CREDENTIALS
    caller.spend(NOW)
    with pytest.raises(RateLimited):  # all of them together
        house.gateway.admit(None, None, NOW).spend(NOW)


def test_where_no_tokens_are_taken_one_is_told_so(tmp_path):
    add_key(tmp_path / "k")
    gateway = Gateway(GatewaySettings(key_file=tmp_path / "k"), GatewayCounts(CollectorRegistry()))
    with pytest.raises(Untrusted) as refused:
        gateway.admit(f"Bearer {ONE.token()}", None, NOW)
    assert refused.value.reason is Reason.NO_TOKENS_HERE


def test_who_fails_often_is_refused_unheard_but_not_those_known_before(house):
    good, key = ONE.token(), house.key.text
    house.bearer(good, address="192.0.2.1")
    for n in range(house.settings.failures_burst):
        forged = Signer("one").token(jti=str(n))
        assert house.refusal(f"Bearer {forged}", address="192.0.2.1") is Reason.FORGED_TOKEN
    for text in (Signer("one").token(), ONE.token(jti="new"), make_key(secrets.choice).text):
        with pytest.raises(RateLimited, match="too many attempts") as refused:
            house.bearer(text, address="192.0.2.1")
        assert refused.value.kind == "failures"
        assert refused.value.retry_after_s == pytest.approx(1.0)
    house.bearer(good, address="192.0.2.1")  # seen before
    house.bearer(key, address="192.0.2.1")  # costs nothing to look at
    house.bearer(ONE.token(jti="new"), address="192.0.2.2")  # from elsewhere
    house.bearer(ONE.token(jti="new 2"), NOW + 1, address="192.0.2.1")  # a second later


def test_requests_without_credentials_block_nobody(house):
    for _ in range(1000):
        assert house.refusal(None, address="192.0.2.1") is Reason.NO_CREDENTIALS
    house.bearer(ONE.token(), address="192.0.2.1")


def test_refusals_are_counted_by_reason_and_logged_once_a_period(house, caplog):
    for n in range(50):
        house.refusal(f"Bearer {Signer('one').token()}", address=f"192.0.2.{n}")
    house.refusal(None)
    house.refusal(f"Bearer {Signer('one').token()}", now=NOW + 60)
    assert house.counts.refused[Reason.FORGED_TOKEN]._value.get() == 51
    assert house.counts.refused[Reason.NO_CREDENTIALS]._value.get() == 1
    said = [(r.message, vars(r)["reason"], vars(r)["held_back"]) for r in caplog.records]
    assert said == [
        ("caller_refused", "forged_token", 0),
        ("caller_refused", "no_credentials", 0),
        ("caller_refused", "forged_token", 49),
    ]
    assert (
        'hybridge_gateway_refused_total{reason="forged_token"} 51.0'
        in generate_latest(house.registry).decode()
    )


def test_no_credential_is_ever_logged_or_said(house, caplog):
    caplog.set_level(logging.DEBUG)
    stranger = make_key(secrets.choice).text
    token = Signer("one").token()
    for text in (stranger, stranger[:-1] + "!", token, token[:-5], "s3cret"):
        with pytest.raises(Untrusted) as refused:
            house.bearer(text)
        chain: BaseException | None = refused.value
        while chain is not None:
            assert text not in str(chain)
            chain = chain.__cause__
    house.bearer(house.key.text)
    for record in caplog.records:
        words = str(vars(record))
        for text in (stranger[14:], token[-40:], "s3cret", house.key.text[14:]):
            assert text not in words


def test_a_removed_key_is_out_and_a_new_one_in_after_reading_again(house):
    house.bearer(house.key.text)
    token = ONE.token()
    house.bearer(token)
    house.key_file.unlink()
    new = add_key(house.key_file, "new")
    house.bearer(house.key.text)  # until it is read
    asyncio.run(house.read_again())
    assert house.refusal(f"Bearer {house.key.text}") is Reason.UNKNOWN_KEY
    assert house.bearer(new.text).name == "new"
    house.bearer(token)


def test_reading_again_gives_nobody_a_new_budget(tmp_path):
    house = House(tmp_path, rate="1/hour")
    house.bearer(house.key.text).spend(NOW)
    asyncio.run(house.read_again())
    with pytest.raises(RateLimited):
        house.bearer(house.key.text).spend(NOW + 1)


@pytest.mark.parametrize("how", ["broken", "gone", "open", "huge"])
def test_a_broken_file_leaves_what_was_known(house, how, caplog):
    match how:
        case "broken":
            house.key_file.write_text('{"id": 1}\n')
        case "gone":
            house.key_file.unlink()
        case "open":
            add_key(house.key_file, "intruder")
            house.key_file.chmod(0o666)
        case "huge":
            with house.key_file.open("ab") as file:
                file.truncate(64 << 20)
    caplog.set_level(logging.INFO)
    asyncio.run(house.read_again())
    house.bearer(house.key.text)
    kept = [r for r in caplog.records if r.message == "gateway_file_kept"]
    assert len(kept) == 1
    assert str(house.key_file) in vars(kept[0])["why"]
    assert house.counts.read["keys", False]._value.get() == 1
    assert house.counts.read["issuer_keys", True]._value.get() == 1


def test_the_issuers_file_is_read_again_and_old_tokens_go_with_their_key(house):
    two = Signer("two")
    old, new = ONE.token(), two.token()
    house.bearer(old)
    assert house.refusal(f"Bearer {new}") is Reason.UNKNOWN_SIGNER
    jwks_file(house.issuer_file, two)
    asyncio.run(house.read_again())
    house.bearer(new)
    assert house.refusal(f"Bearer {old}") is Reason.UNKNOWN_SIGNER


def test_a_token_is_revoked_while_it_is_remembered(tmp_path):
    revoked = tmp_path / "revoked"
    revoked.write_text("# none yet\n")
    revoked.chmod(0o644)
    house = House(tmp_path, tokens={"revoked_file": revoked})
    token = ONE.token(jti="t-1")
    house.bearer(token)
    revoked.write_text("# lost laptop\nt-1\n")
    asyncio.run(house.read_again())
    assert house.refusal(f"Bearer {token}") is Reason.REVOKED_TOKEN


def test_so_many_tokens_are_revoked(tmp_path, monkeypatch):
    monkeypatch.setattr("cloud.gateway.trusted.REVOKED_MAX", 2)
    path = tmp_path / "revoked"
    path.write_text("a\nb\n\n# c\n")
    path.chmod(0o644)
    assert read_revoked(path) == {"a", "b"}
    path.write_text("a\nb\nc\n")
    with pytest.raises(TooLarge, match="3 tokens; 2 may be"):
        read_revoked(path)


def test_a_start_with_a_broken_file_is_refused(house):
    def start() -> None:
        Gateway(house.settings, GatewayCounts(CollectorRegistry()))

    house.key_file.chmod(0o644)
    with pytest.raises(NotTrusted, match="chmod 600"):
        start()
    house.key_file.chmod(0o600)
    house.issuer_file.write_text("{}")
    with pytest.raises(Malformed, match="JSON Web Key Set"):
        start()
    house.key_file.unlink()
    with pytest.raises(Unknown):
        start()


def test_before_the_issuers_keys_are_here_a_token_may_come_again(tmp_path):
    async def scenario() -> None:
        settings = GatewaySettings.model_validate({
            "tokens": {"issuer": ISSUER, "audience": AUDIENCE, "keys_url": "http://127.0.0.1:1/"}
        })  # fmt: skip
        gateway = Gateway(settings, GatewayCounts(CollectorRegistry()))
        with pytest.raises(Unavailable, match="not here yet; come again") as refused:
            gateway.admit(f"Bearer {ONE.token()}", None, NOW)
        assert refused.value.retry_after_s == 1.0

    asyncio.run(scenario())


def test_run_ends_when_drained_also_before_it_began(house):
    async def scenario() -> None:
        running = asyncio.create_task(house.gateway.run())
        await asyncio.sleep(0)
        house.gateway.drain()
        async with asyncio.timeout(10):
            await running
            await house.gateway.run()
        house.bearer(house.key.text)

    asyncio.run(scenario())


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.none() | st.text(max_size=80), st.none() | st.text(max_size=80), st.booleans())
def test_any_headers_are_refused_or_come_again(house, authorization, api_key, bearer):
    if bearer and authorization is not None:
        authorization = "Bearer " + authorization
    with pytest.raises((Untrusted, RateLimited)):
        house.gateway.admit(authorization, api_key, NOW, "192.0.2.1")


def test_what_is_remembered_is_bounded(tmp_path):
    house = House(tmp_path, seen_max=10, callers_max=5)
    for n in range(60):
        house.bearer(ONE.token(sub=f"s{n}"))
    assert len(house.gateway._by_header) <= 10
    assert len(house.gateway._admission.budgets) <= 5
