"""The scaling policy as Kubernetes manifests: a Deployment and what scales it. Pure.

Sources: `autoscaling/v2` HorizontalPodAutoscaler (kubernetes.io, API reference), KEDA 2
ScaledObject and Prometheus scaler (keda.sh/docs), prometheus-adapter's configuration walkthrough.
"""

import json
import math
import re
from dataclasses import dataclass
from typing import Literal

from cloud.capacity.autoscaling import Scaling
from shared.errors import Malformed

Kind = Literal["hpa", "keda"]
METRIC = "hybridge_requests_per_second"
_UP_PERIOD_S = 15
"""Between two doublings: how often Kubernetes looks."""
_RATE_WINDOW = "1m"
"""Four scrapes of 15 s; a shorter one is empty when one is missed."""
_EXIT_S = 5
"""After the drain: files are closed, and the process ends."""
_PERIOD_S_MAX, _WINDOW_S_MAX = 1800, 3600
"""Of the autoscaler's own schema."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,51}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Names:
    """What the manifests call things. Raises `Malformed`."""

    name: str
    namespace: str
    image: str
    prometheus: str
    """Its URL, as the cluster reaches it; only KEDA asks it itself."""

    def __post_init__(self) -> None:
        for what, text in (("--name", self.name), ("--namespace", self.namespace)):
            if not _NAME.fullmatch(text):
                raise Malformed(f"{what} {text[:60]!r}: want lower-case letters, digits and dashes")
        for what, text in (("--image", self.image), ("--prometheus", self.prometheus)):
            if not text or len(text) > 300 or not text.isprintable() or " " in text:
                raise Malformed(f"{what} {text[:60]!r}: want one word")


@dataclass(frozen=True, slots=True)
class Ending:
    """Seconds, as the worker's settings have them."""

    notice_s: float
    drain_s: float

    @property
    def grace_s(self) -> int:
        return math.ceil(self.notice_s + self.drain_s) + _EXIT_S


def manifests(kind: Kind, names: Names, scaling: Scaling, ending: Ending) -> str:
    """YAML documents for `kubectl apply`. Raises `Malformed`."""
    if scaling.cooldown_s > _WINDOW_S_MAX or not 1 <= scaling.step_s <= _PERIOD_S_MAX:
        raise Malformed(
            f"Kubernetes takes cooldown_s up to {_WINDOW_S_MAX} and step_s from 1 to {_PERIOD_S_MAX}"
        )
    scaler = _hpa(names, scaling) if kind == "hpa" else _keda(names, scaling)
    return f"{_deployment(names, ending)}---\n{scaler}"


def query(matchers: str, by: str = "") -> str:
    """PromQL: requests a second that were answered, or refused for want of room or time.

    Over HTTP and MQTT. The three have different labels, so that `or` is their union, and one that
    has not happened yet does not make the sum empty. Callers over their own rate limit do not count:
    more workers would not answer them.
    """
    parts = (
        ("hybridge_stage_seconds_count", 'stage="queue"'),
        ("hybridge_http_problems_total", 'kind=~"overloaded|deadline-missed"'),
        ("hybridge_refused_total", 'code=~"overloaded|too_late"'),
    )
    rates = " or ".join(f"rate({name}{{{own},{matchers}}}[{_RATE_WINDOW}])" for name, own in parts)
    return f"sum{by}({rates})"


def _deployment(names: Names, ending: Ending) -> str:
    name = json.dumps(names.name)  # a JSON string is a YAML string
    return f"""\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
  namespace: {json.dumps(names.namespace)}
spec:
  # no replicas: the autoscaler's number stays when this is applied again
  selector:
    matchLabels: {{app.kubernetes.io/name: {name}}}
  strategy:
    rollingUpdate: {{maxSurge: 1, maxUnavailable: 0}}
  template:
    metadata:
      labels: {{app.kubernetes.io/name: {name}}}
      annotations:
        prometheus.io/scrape: "true"
        prometheus.io/port: "8700"
        prometheus.io/path: /metrics
    spec:
      # notice_s {ending.notice_s:g} + drain_s {ending.drain_s:g} of the worker's settings, and {_EXIT_S} to end
      terminationGracePeriodSeconds: {ending.grace_s}
      containers:
        - name: worker
          image: {json.dumps(names.image)}
          args: [hybridge-cloud, serve, --config, /etc/hybridge/cloud.toml, --api-port, "8700"]
          ports: [{{name: api, containerPort: 8700}}]
          readinessProbe: # no traffic before the models are loaded, none once it is told to end
            httpGet: {{path: /v2/health/ready, port: api}}
            periodSeconds: 1
            timeoutSeconds: 1
            failureThreshold: 2
          livenessProbe:
            httpGet: {{path: /v2/health/live, port: api}}
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 3
          volumeMounts: [{{name: settings, mountPath: /etc/hybridge, readOnly: true}}]
      volumes: # cloud.toml (api.host = "0.0.0.0") and the key file that it names
        - name: settings
          secret: {{secretName: {name}}}
"""


def _behavior(scaling: Scaling, indent: str) -> str:
    text = f"""\
behavior:
  scaleUp: # at once, by doubling at most
    stabilizationWindowSeconds: 0
    policies: [{{type: Percent, value: 100, periodSeconds: {_UP_PERIOD_S}}}]
  scaleDown: # one at a time, after fewer have sufficed for so long
    stabilizationWindowSeconds: {math.ceil(scaling.cooldown_s)}
    policies: [{{type: Pods, value: 1, periodSeconds: {math.ceil(scaling.step_s)}}}]
"""
    return "".join(f"{indent}{line}\n" for line in text.splitlines())


def _hpa(names: Names, scaling: Scaling) -> str:
    name = json.dumps(names.name)
    milli = math.floor(_target_qps(scaling) * 1000)
    rule = query("<<.LabelMatchers>>", " by (<<.GroupBy>>) ")
    return f"""\
# {METRIC} comes from prometheus-adapter; its values need this rule:
#   rules:
#     custom:
#       - seriesQuery: 'hybridge_stage_seconds_count{{stage="queue",namespace!="",pod!=""}}'
#         resources: {{overrides: {{namespace: {{resource: namespace}}, pod: {{resource: pod}}}}}}
#         name: {{as: {METRIC}}}
#         metricsQuery: '{rule}'
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {name}
  namespace: {json.dumps(names.namespace)}
spec:
  scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: {name}}}
  minReplicas: {scaling.workers_min}
  maxReplicas: {scaling.workers_max}
  metrics:
    - type: Pods
      pods:
        metric: {{name: {METRIC}}}
        # {scaling.qps_at_sla:g}/s within the SLA, as measured, of which {scaling.load_max:.0%} are planned for
        target: {{type: AverageValue, averageValue: {milli}m}}
{_behavior(scaling, "  ")}"""


def _keda(names: Names, scaling: Scaling) -> str:
    name = json.dumps(names.name)
    matchers = f'namespace="{names.namespace}",pod=~"{names.name}-.+"'
    return f"""\
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: {name}
  namespace: {json.dumps(names.namespace)}
spec:
  scaleTargetRef: {{name: {name}}}
  minReplicaCount: {scaling.workers_min}
  maxReplicaCount: {scaling.workers_max}
  pollingInterval: {_UP_PERIOD_S}
  # when Prometheus cannot be asked, better too many than too few
  fallback: {{failureThreshold: 3, replicas: {scaling.workers_max}}}
  triggers:
    - type: prometheus
      metricType: AverageValue
      metadata:
        serverAddress: {json.dumps(names.prometheus)}
        query: {json.dumps(query(matchers))}
        # {scaling.qps_at_sla:g}/s within the SLA, as measured, of which {scaling.load_max:.0%} are planned for
        threshold: "{_target_qps(scaling):.3f}"
        ignoreNullValues: "false" # nothing known is not no load
  advanced:
    horizontalPodAutoscalerConfig:
{_behavior(scaling, "      ")}"""


def _target_qps(scaling: Scaling) -> float:
    return scaling.qps_at_sla * scaling.load_max
