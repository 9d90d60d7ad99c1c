"""The emitted manifests, held against the documented fields of their kinds.

Neither Kubernetes' nor KEDA's JSON schemas are here, so: every field that is written is one of the
documented ones, of its type and within its bounds (autoscaling/v2 HorizontalPodAutoscalerSpec and
HPAScalingRules; apps/v1 Deployment; KEDA 2 ScaledObject and its Prometheus trigger).
"""

import re
from typing import Any

import pytest
import yaml

from cloud.capacity.autoscaling import Scaling
from cloud.capacity.manifests import Ending, Kind, Names, manifests, query
from shared.errors import Malformed

SCALING = Scaling(qps_at_sla=412.5, workers_min=3, workers_max=30, cooldown_s=240, step_s=45)
NAMES = Names("fashion", "vision", "registry.example/hybridge:1", "http://prometheus:9090")


def written(kind: Kind, names: Names = NAMES, scaling: Scaling = SCALING) -> list[Any]:
    return list(yaml.safe_load_all(manifests(kind, names, scaling, Ending(5.0, 30.0))))


def check_behavior(behavior: Any) -> None:
    assert behavior.keys() == {"scaleUp", "scaleDown"}
    for rules in behavior.values():
        assert rules.keys() == {"stabilizationWindowSeconds", "policies"}
        assert 0 <= rules["stabilizationWindowSeconds"] <= 3600
        for policy in rules["policies"]:
            assert policy.keys() == {"type", "value", "periodSeconds"}
            assert 0 < policy["periodSeconds"] <= 1800
    (up,), (down,) = (behavior[way]["policies"] for way in ("scaleUp", "scaleDown"))
    assert (up["type"], up["value"]) == ("Percent", 100)
    assert (down["type"], down["value"], down["periodSeconds"]) == ("Pods", 1, 45)
    assert behavior["scaleUp"]["stabilizationWindowSeconds"] == 0
    assert behavior["scaleDown"]["stabilizationWindowSeconds"] == 240


@pytest.mark.parametrize("kind", ["hpa", "keda"])
def test_the_deployment_takes_traffic_when_ready_and_is_given_its_time_to_end(kind: Kind) -> None:
    deployment = written(kind)[0]
    assert (deployment["apiVersion"], deployment["kind"]) == ("apps/v1", "Deployment")
    spec = deployment["spec"]
    assert "replicas" not in spec
    assert spec.keys() == {"selector", "strategy", "template"}
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    pod = spec["template"]["spec"]
    assert pod.keys() == {"terminationGracePeriodSeconds", "containers", "volumes"}
    assert pod["terminationGracePeriodSeconds"] == 40
    (container,) = pod["containers"]
    assert container["readinessProbe"]["httpGet"] == {"path": "/v2/health/ready", "port": "api"}
    assert container["livenessProbe"]["httpGet"] == {"path": "/v2/health/live", "port": "api"}
    assert container["ports"] == [{"name": "api", "containerPort": 8700}]
    assert all(isinstance(word, str) for word in container["args"])
    ready = container["readinessProbe"]
    assert ready["periodSeconds"] * ready["failureThreshold"] < 5.0  # notice_s: seen in time
    assert [v["name"] for v in container["volumeMounts"]] == [v["name"] for v in pod["volumes"]]
    for annotation in spec["template"]["metadata"]["annotations"].values():
        assert isinstance(annotation, str)


def test_the_hpa() -> None:
    _, hpa = written("hpa")
    assert (hpa["apiVersion"], hpa["kind"]) == ("autoscaling/v2", "HorizontalPodAutoscaler")
    assert hpa["metadata"] == {"name": "fashion", "namespace": "vision"}
    spec = hpa["spec"]
    assert spec.keys() == {"scaleTargetRef", "minReplicas", "maxReplicas", "metrics", "behavior"}
    assert spec["scaleTargetRef"] == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "fashion",
    }
    assert (spec["minReplicas"], spec["maxReplicas"]) == (3, 30)
    (metric,) = spec["metrics"]
    assert metric == {
        "type": "Pods",
        "pods": {
            "metric": {"name": "hybridge_requests_per_second"},
            "target": {"type": "AverageValue", "averageValue": "309375m"},
        },
    }
    check_behavior(spec["behavior"])


def test_the_adapters_rule_stands_with_it_and_is_yaml_itself() -> None:
    text = manifests("hpa", NAMES, SCALING, Ending(5, 30))
    rule = yaml.safe_load("\n".join(
        line[2:] for line in text.splitlines() if re.match(r"#  ", line)
    ))  # fmt: skip
    (one,) = rule["rules"]["custom"]
    assert one.keys() == {"seriesQuery", "resources", "name", "metricsQuery"}
    assert one["name"] == {"as": "hybridge_requests_per_second"}
    assert one["metricsQuery"] == query("<<.LabelMatchers>>", " by (<<.GroupBy>>) ")


def test_the_scaled_object() -> None:
    _, scaled = written("keda")
    assert (scaled["apiVersion"], scaled["kind"]) == ("keda.sh/v1alpha1", "ScaledObject")
    spec = scaled["spec"]
    assert spec.keys() == {
        "scaleTargetRef", "minReplicaCount", "maxReplicaCount", "pollingInterval", "fallback",
        "triggers", "advanced",
    }  # fmt: skip
    assert spec["scaleTargetRef"] == {"name": "fashion"}
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (3, 30)
    assert spec["fallback"] == {"failureThreshold": 3, "replicas": 30}
    (trigger,) = spec["triggers"]
    assert (trigger["type"], trigger["metricType"]) == ("prometheus", "AverageValue")
    assert trigger["metadata"] == {
        "serverAddress": "http://prometheus:9090",
        "query": query('namespace="vision",pod=~"fashion-.+"'),
        "threshold": "309.375",
        "ignoreNullValues": "false",
    }
    check_behavior(spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"])


def test_the_query_is_one_sum_of_the_three_rates() -> None:
    text = query('pod="a"')
    assert text.startswith("sum(rate(")
    assert text.count('pod="a"') == text.count("rate(") == text.count("[1m]") == 3
    assert text.count("(") == text.count(")")


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("name", "Fashion"), ("name", "a" * 60), ("name", 'x"\ny: 1'), ("namespace", ""),
        ("image", "two words"), ("image", "x\n-y"), ("prometheus", ""),
    ],
)  # fmt: skip
def test_names_that_kubernetes_refuses_or_that_would_write_yaml_of_their_own(
    what: str, text: str
) -> None:
    fields = {"name": "a", "namespace": "b", "image": "c", "prometheus": "d", what: text}
    with pytest.raises(Malformed, match=f"--{what}"):
        Names(**fields)


def test_an_image_and_an_address_with_odd_characters_stay_text() -> None:
    odd = Names("a", "b", 'c"#{x}:', "http://d?e='f'&g=\"h\"")
    deployment, scaled = written("keda", odd)
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == 'c"#{x}:'
    assert scaled["spec"]["triggers"][0]["metadata"]["serverAddress"] == odd.prometheus


@pytest.mark.parametrize("over", [{"cooldown_s": 3601.0}, {"step_s": 0.5}, {"step_s": 1801.0}])
def test_periods_that_kubernetes_does_not_take_are_refused(over: dict[str, float]) -> None:
    scaling = SCALING.model_copy(update=over)
    with pytest.raises(Malformed, match="Kubernetes takes"):
        manifests("hpa", NAMES, scaling, Ending(5, 30))
