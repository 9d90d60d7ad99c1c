"""What a device says: its reports, which are sent until the broker has them, and its telemetry."""

from typing import TYPE_CHECKING

from edge.updates.fleet_view import FleetView
from shared.fleet.document import Document
from shared.fleet.reported import ReportedModel
from shared.fleet.telemetry import Telemetry
from shared.ids import DeviceId
from shared.topics import reported, telemetry
from simulations.fleet.lies import lying_reports, lying_telemetry
from simulations.fleet.models import MODEL
from simulations.fleet.surroundings import Surroundings
from simulations.fleet.telemetry import telemetry as telemetry_of

if TYPE_CHECKING:
    from simulations.fleet.device import Device


class Reporting:
    """Of one device. The sequence is on its disk; all else begins anew with `boot`."""

    __slots__ = (
        "_around", "_before", "_due", "_measured", "_said", "_topic", "_topic_measured", "_view",
        "pending", "sequence", "telemetry_sequence",
    )  # fmt: skip

    def __init__(self, device: DeviceId, around: Surroundings) -> None:
        self._around = around
        self._topic, self._topic_measured = reported(device, "model"), telemetry(device)
        self.sequence = 0
        self.boot()

    def boot(self) -> None:
        self.telemetry_sequence = 0
        self.pending = self._due = False
        """`pending`: the broker does not have the newest report."""
        self._view: FleetView | None = None
        self._said: ReportedModel | None = None
        self._before: ReportedModel | None = None
        self._measured: Telemetry | None = None

    def changed(self, device: "Device", view: FleetView) -> None:
        """Where it stands; nothing is said when that is no news."""
        if view == self._view:
            self.send(device)
            return
        self._view = view
        gathers_s = self._around.report_s
        if not gathers_s:
            self._say(device)
        elif not self._due:
            self._due, life = True, device.life
            self._around.agenda.after(gathers_s, lambda: self._gathered(device, life))

    def _gathered(self, device: "Device", life: int) -> None:
        if device.up and device.life == life:
            self._due = False
            self._say(device)

    def _say(self, device: "Device") -> None:
        assert self._view is not None
        self.sequence += 1
        self._before, self._said = self._said, _said(device, self._view, self.sequence)
        self.pending = True
        self.send(device)

    def send(self, device: "Device") -> None:
        """What is pending, where there is a link."""
        network, said = self._around.network, self._said
        if not self.pending or said is None or not network.connected(device.id):
            return
        self.pending = False
        documents = [said]
        if device.nature.lie:
            documents = lying_reports(device.nature, said, self._before, device.desired)
        for document in documents:
            payload = payload_of(self._around, document)
            if not network.publish(device.id, self._topic, payload, retained=True):
                self.pending = True
                return

    def measure(self, device: "Device") -> None:
        """Send telemetry; `traffic` has run this device to now. Lost reports are not sent again."""
        around, network = self._around, self._around.network
        if not network.connected(device.id):
            return
        self.telemetry_sequence += 1
        said = telemetry_of(
            around.traffic,
            device.index,
            boot=device.boot_name,
            sequence=self.telemetry_sequence,
            at=device.now + device.nature.clock_offset_s,
            uptime_s=device.now - device.booted_at,
            interval_s=around.telemetry_s,
            started=device.started,
            shadow_started=device.shadow_started,
        )
        documents = [said]
        if device.nature.lie:
            documents = lying_telemetry(
                device.nature, said, self._measured, device.desired, around.rng
            )
            self._measured = said
        for document in documents:
            payload = payload_of(around, document)
            if not network.publish(device.id, self._topic_measured, payload, retained=False):
                return


def _said(device: "Device", view: FleetView, sequence: int) -> ReportedModel:
    return ReportedModel.model_construct(
        sequence=sequence,
        at=device.now + device.nature.clock_offset_s,
        generation=view.generation,
        rollout=view.rollout,
        attempt=view.attempt,
        phase=view.phase,
        model=MODEL,
        version=view.active.version,
        manifest_sha256=view.active.manifest_sha256,
        variant="onnxruntime/int8",
        candidate=view.candidate.version if view.candidate is not None else None,
        why=view.why,
        golden_failed=view.golden_failed,
    )


def payload_of(around: Surroundings, document: Document) -> object:
    """Bytes where a run is on the wire."""
    return document.to_bytes() if around.on_wire else document
