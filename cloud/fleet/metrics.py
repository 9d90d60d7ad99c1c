"""What a fleet counts, beside the HTTP API's own. Labels are bounded: fixed words."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


class FleetMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, what: str) -> Counter:
            return Counter(f"hybridge_fleet_{name}", what, registry=registry)

        def gauge(name: str, what: str) -> Gauge:
            return Gauge(f"hybridge_fleet_{name}", what, registry=registry)

        def seconds(name: str, what: str) -> Histogram:
            return Histogram(
                f"hybridge_fleet_{name}", what, buckets=_SECONDS, registry=registry
            )  # fmt: skip

        self.requests = Histogram(
            "hybridge_fleet_request_seconds", "Requests that were answered, by operation",
            ["operation"], buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self.devices = gauge("devices", "Devices that are known")
        self.online = gauge("devices_online", "Devices that are online")
        self.link_up = gauge("link_up", "1 while the link to the broker stands")
        self.messages = Counter(
            "hybridge_fleet_messages", "Messages of devices that were taken, by kind", ["kind"],
            registry=registry,
        )  # fmt: skip
        self.refused = Counter(
            "hybridge_fleet_messages_refused", "Messages of devices that were not, by reason",
            ["reason"], registry=registry,
        )  # fmt: skip
        self.record_seconds = seconds("record_seconds", "To store a batch of messages")
        self.pending = gauge("messages_pending", "Messages of devices that wait to be stored")
        self.published = counter("published", "Desired state that the broker took")
        self.not_published = counter("not_published", "Desired state that the broker refused")
        self.steps = counter("rollout_steps", "Events that rollouts were told")
        self.events_dropped = counter(
            "rollout_events_dropped", "Events without room; read from the store instead"
        )
        self.turn_seconds = seconds("rollout_turn_seconds", "To step all rollouts and commit")
        self.commit_seconds = seconds(
            "rollout_commit_seconds", "To store what a rollout's step did"
        )
        self.rollouts = gauge("rollouts", "Rollouts that run or pause")
        self.orders = counter("orders", "Orders to devices")
        self.drift_alarms = gauge("drift_alarms", "Alarms of drift that are on")
        self.drift_devices = gauge("drift_devices", "Devices that are watched for drift")
        self.drift_look_seconds = seconds("drift_look_seconds", "To look for drift and store it")
        self.drift_doubts = Counter(
            "hybridge_fleet_drift_doubts", "Reports that do not count for drift, by reason",
            ["reason"], registry=registry,
        )  # fmt: skip
        self.enrolled = counter("enrolled", "Certificates given for a token")
        self.renewed = counter("renewed", "Certificates given for a certificate")
        self.enrolments_refused = counter("enrolments_refused", "Enrolments that were refused")
        self.unreadable = Counter(
            "hybridge_http_unreadable", "Connections that spoke no HTTP", registry=registry
        )
