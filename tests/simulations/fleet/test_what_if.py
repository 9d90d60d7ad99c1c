import json

import pytest

from shared.errors import Malformed
from shared.fleet.telemetry import Tally, Telemetry
from simulations.fleet.run import simulate
from simulations.fleet.scenarios import scenario
from simulations.fleet.what_if.compare import policy_of, print_replay
from simulations.fleet.what_if.gate import gate
from simulations.fleet.what_if.log import Total, read_log
from simulations.fleet.what_if.threshold import as_recorded, at


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "worse.jsonl.zst"
    outcome = simulate(scenario("worse"), 4, 100, trace=path).outcome
    return path, outcome


def test_a_trace_through_the_same_rollout_ends_as_it_did(trace):
    path, outcome = trace
    gated = gate(path, {})
    assert gated.why == outcome.why
    assert gated.stage == outcome.stage
    assert gated.decided_h == pytest.approx(outcome.hours, abs=0.01)


def test_a_laxer_criterion_lets_the_version_pass_and_a_riskier_one_stops_it_sooner(trace):
    path, outcome = trace
    assert gate(path, {"criteria": ["accuracy_loss <= 0.2"]}).status == "running"
    assert gate(path, {"risk": 0.2}).decided_h < outcome.hours


def test_a_policy_that_moves_devices_is_simulated_again(trace, capsys):
    path, outcome = trace
    print_replay(path, (), (), ("shadow_s=0",), 60.0, as_json=True)
    was, instead = json.loads(capsys.readouterr().out)["policy"]
    assert was["hours"] == outcome.hours
    assert instead["exposed"] > was["exposed"]


def test_of_a_real_log_a_policy_that_moves_devices_is_refused_in_words(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(_message(_report(1, 100))))
    with pytest.raises(Malformed, match="canary: such a policy changes what devices do"):
        print_replay(path, (), (), ("canary=0.5",), 60.0, as_json=True)


@pytest.mark.parametrize(
    ("text", "words"), [("canary", "want NAME=VALUE"), ("=1", "want NAME=VALUE")]
)
def test_a_policy_that_does_not_parse_is_refused(text, words):
    with pytest.raises(Malformed, match=words):
        policy_of([text])


def test_a_value_that_does_not_fit_is_refused(trace):
    with pytest.raises(Malformed, match="risk"):
        gate(trace[0], {"risk": 3})


def _report(sequence, samples, boot="0" * 16):
    confident = samples - samples // 4
    row = (0,) * 5 + (samples // 4, 0, 0, 0, confident)
    tally = Tally(
        model="edge", version="1.0.0", samples=samples, escalated=samples // 4,
        audited=20, answered=samples // 4 + 20, disagreed=samples // 20 + 1, audit_answered=20,
        audit_disagreed=1, latency=(0,) * 10 + (samples,) + (0,) * 21, confidence=(row,),
    )  # fmt: skip
    return Telemetry(boot=boot, sequence=sequence, at=0, uptime_s=1, interval_s=30, tally=tally)


def _message(report, device="a"):
    return {"topic": f"hy/v1/{device}/up/tel", "payload": json.loads(report.to_bytes())}


def _total(samples=1000):
    total = Total()
    total.add(_report(1, samples).tally)
    return total


def test_of_a_tally_the_newest_report_counts_once_whatever_the_order(tmp_path):
    path = tmp_path / "log.jsonl"
    lines = [_report(2, 400), _report(1, 200), _report(2, 400), _report(1, 100, "1" * 16)]
    path.write_text("\n".join(json.dumps(_message(one)) for one in lines))
    assert read_log(path).versions["1.0.0"].counts["samples"] == 500


def test_messages_as_mosquitto_sub_writes_them_have_their_payload_as_text(tmp_path):
    path = tmp_path / "log.jsonl"
    line = {"topic": "hy/v1/a/up/tel", "payload": _report(1, 100).to_bytes().decode()}
    path.write_text(json.dumps(line))
    assert read_log(path).versions["1.0.0"].counts["samples"] == 100


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "no telemetry in it"),
        ("{", "line 1: no JSON"),
        ("[1]", "line 1: want an object"),
        ('{"topic": "hy/v1/a/up/tel", "payload": {}}', "line 1"),
    ],
)
def test_a_file_that_is_no_log_is_refused_with_the_line(tmp_path, content, words):
    path = tmp_path / "log.jsonl"
    path.write_text(content)
    with pytest.raises(Malformed, match=words):
        read_log(path)


def test_a_threshold_at_an_edge_is_known_exactly():
    found = at(_total(), 0.9, 900.0, 60.0)
    assert found.escalated == found.escalated_low == found.escalated_high == 0.25


def test_a_threshold_within_a_bin_is_known_within_its_share():
    found = at(_total(), 0.55, 900.0, 60.0)
    assert (found.escalated_low, found.escalated_high) == (0.0, 0.25)
    assert found.escalated == pytest.approx(0.125)


def test_escalating_everything_is_right_always_and_costs_most():
    was, found = as_recorded(_total(), 900.0, 60.0), at(_total(), 1.0, 900.0, 60.0)
    assert found.accuracy == 1.0
    assert found.bytes_per_sample > was.bytes_per_sample
    assert found.final_ms > was.final_ms


def test_without_audits_nobody_knows_the_accuracy():
    total = _total()
    total.counts["audit_answered"] = 0
    assert as_recorded(total, None, 60.0).accuracy is None
    assert at(total, 0.9, None, 60.0).bytes_per_sample is None
