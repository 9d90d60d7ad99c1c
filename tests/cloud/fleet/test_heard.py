"""A device's word: lies, copies, old reports, wrong clocks."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.fleet.desired_state import GENERATION_BELIEVED_MAX
from cloud.fleet.device_settings import PresenceSettings
from cloud.fleet.heard import (
    CLOCK_AHEAD_S,
    FLAPS,
    DeviceState,
    PresenceChange,
    Seen,
    hear,
    quarantined,
)
from shared.fleet.reported import (
    DevicePhase,
    ReportedInventory,
    ReportedModel,
    ReportedProfile,
)

NOW = 1_700_000_000.0
PRESENCE = PresenceSettings(changes_max=2, window_s=100, quarantine_s=50)


def _model(sequence: int = 1, at: float = NOW, **values: Any) -> ReportedModel:
    return ReportedModel(**{
        "sequence": sequence, "at": at, "phase": DevicePhase.COMMITTED, "model": "m",
        "version": "1.0.0", "manifest_sha256": "a" * 64, **values,
    })  # fmt: skip


def _inventory(sequence: int = 1, **values: Any) -> ReportedInventory:
    return ReportedInventory(**{
        "sequence": sequence, "at": NOW, "agent": "1", "system": "Linux", "arch": "aarch64",
        "cpu": "x", "cores": 4, "memory_bytes": 1, "disk_bytes": 1, **values,
    })  # fmt: skip


def _hear(state: DeviceState, heard: Any, now: float = NOW) -> Any:
    return hear(state, heard, now, PRESENCE)


REPORTS = [_model, _inventory, lambda sequence: ReportedProfile(sequence=sequence, at=NOW)]


@pytest.mark.parametrize("report", REPORTS)
def test_a_copy_and_an_older_report_change_nothing(report):
    state = _hear(DeviceState(), report(5))
    assert _hear(state, report(5)) == "old report"
    assert _hear(state, report(4)) == "old report"
    assert _hear(state, report(6)) != "old report"


def test_a_device_whose_disk_was_made_anew_counts_from_the_beginning():
    state = _hear(DeviceState(), _model(900, NOW))
    state = _hear(state, _model(1, NOW + 60, version="1.1.0"), NOW + 60)
    assert state.version == "1.1.0"


def test_reports_of_the_future_cannot_swap_their_places():
    """All of them are later than anything: so none is taken for a new beginning."""
    ahead = CLOCK_AHEAD_S + 1
    state = _hear(DeviceState(), _model(5, NOW + 10 * ahead))
    assert _hear(state, _model(4, NOW + 20 * ahead), NOW + 5) == "old report"


def test_a_report_of_the_future_does_not_shut_the_next_ones_out():
    state = _hear(DeviceState(), _model(5, NOW + 1e9))
    assert _hear(state, _model(6, NOW), NOW + 1).last_model.sequence == 6
    later = NOW + CLOCK_AHEAD_S + 1
    assert _hear(state, _model(1, later), later).last_model.sequence == 1  # its disk is new


def test_times_are_the_regions():
    state = _hear(DeviceState(), _model(1, NOW + 1e9))
    assert state.last_seen == NOW
    assert _hear(state, _model(2, 0.0), NOW + 1).last_seen == NOW + 1


def test_a_generation_that_no_counter_reaches_is_not_believed():
    assert _hear(DeviceState(), _model(generation=GENERATION_BELIEVED_MAX + 1)) == "not believed"
    assert _hear(DeviceState(), _model(generation=GENERATION_BELIEVED_MAX)) != "not believed"


@pytest.mark.parametrize("heard", [Seen(), PresenceChange(True), _model(), _inventory()])
def test_a_revoked_device_is_not_heard(heard):
    assert _hear(DeviceState(revoked=True), heard) == "revoked"


def test_another_model_other_hardware_and_a_higher_generation_have_to_be_looked_at():
    state = _hear(DeviceState(), _model(1))
    assert state.unsettled
    state = _hear(DeviceState(model="m", arch="aarch64"), _model(1, version="2.0.0"))
    assert not state.unsettled
    assert _hear(state, _model(2, generation=3)).unsettled
    assert not _hear(state, _inventory()).unsettled
    assert _hear(state, _inventory(arch="x86_64")).unsettled
    assert _hear(state, _inventory(engines={"openvino": "1"})).unsettled
    assert _hear(state, ReportedProfile(sequence=1, at=NOW, generation=4)).unsettled


def test_what_a_device_calls_its_hardware_is_kept_only_where_a_selector_could_name_it():
    odd = {"open vino": "1", "tensor\x00rt": "1", "onnxruntime": "1.20", "openvino": "2025"}
    state = _hear(DeviceState(), _inventory(arch="a\x00b", engines=odd))
    assert (state.arch, state.engines) == ("", "onnxruntime openvino")


def test_flapping_is_a_quarantine_that_ends():
    state = DeviceState()
    for n in range(4):
        state = _hear(state, PresenceChange(n % 2 == 0), NOW + n)
    assert state.quarantine_why == FLAPS
    assert quarantined(state, NOW + 4)
    assert not quarantined(state, NOW + 3 + 50)


def test_an_operators_quarantine_is_not_shortened_by_flapping():
    for until in (None, NOW + 1e6):
        state = DeviceState(quarantined_at=NOW, quarantined_until=until, quarantine_why="broken")
        for n in range(4):
            state = _hear(state, PresenceChange(n % 2 == 0), NOW + n)
        assert state.quarantined_until == until


@given(st.lists(st.integers(0, 30), max_size=30))
def test_in_any_order_with_any_copies_the_highest_number_wins(sequences):
    """With a clock that is right: each report was made at a time of its own."""
    state = DeviceState()
    for sequence in sequences:
        after = _hear(state, _model(sequence, NOW + sequence, version=f"1.{sequence}.0"), NOW + 99)
        state = state if isinstance(after, str) else after
    if sequences:
        assert state.version == f"1.{max(sequences)}.0"
