"""What the gateway counts. Labels are reasons and results, never callers."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from cloud.gateway.refusals import Reason


class GatewayCounts:
    def __init__(self, registry: CollectorRegistry) -> None:
        refused = Counter(
            "hybridge_gateway_refused", "Credentials refused, by reason", ["reason"],
            registry=registry,
        )  # fmt: skip
        self.refused = {reason: refused.labels(reason.value) for reason in Reason}
        self.unheard = Counter(
            "hybridge_gateway_unheard", "Credentials refused unheard: too many failed before",
            registry=registry,
        )  # fmt: skip
        checked = Counter(
            "hybridge_gateway_checked", "Credentials checked and good, by kind", ["kind"],
            registry=registry,
        )  # fmt: skip
        self.keys_checked, self.tokens_checked = checked.labels("key"), checked.labels("token")
        read = Counter(
            "hybridge_gateway_reads", "Files and key sets read, by what and result",
            ["what", "result"], registry=registry,
        )  # fmt: skip
        self.read = {
            (what, is_good): read.labels(what, "good" if is_good else "bad")
            for what in ("keys", "issuer_keys", "revoked")
            for is_good in (True, False)
        }
        self.storage_failures = Counter(
            "hybridge_gateway_storage_failures", "Calls to the shared storage of rates that failed",
            registry=registry,
        )  # fmt: skip
        self.keys = Gauge("hybridge_gateway_keys", "API keys in the key file", registry=registry)
        self.issuer_keys = Gauge(
            "hybridge_gateway_issuer_keys", "The token issuer's keys", registry=registry
        )
