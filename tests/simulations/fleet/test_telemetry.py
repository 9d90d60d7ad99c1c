"""A simulated device's report is made without validation, so it has to be whole."""

from shared.fleet.telemetry import BYTES_MAX, Tally, Telemetry
from simulations.fleet.models import ACTIVE
from simulations.fleet.telemetry import telemetry
from simulations.fleet.traffic import Population, Traffic


def test_a_simulated_report_has_every_member_and_reads_back() -> None:
    traffic = Traffic(1, 3, (ACTIVE,), Population())
    said = telemetry(
        traffic, 1, boot="0" * 16, sequence=1, at=1e9, uptime_s=60.0, interval_s=30.0, started=0,
        shadow_started=0,
    )  # fmt: skip
    assert said.__dict__.keys() == Telemetry.model_fields.keys()
    assert said.tally.__dict__.keys() == Tally.model_fields.keys()
    assert Telemetry.from_bytes(said.to_bytes(), BYTES_MAX) == said
