"""The core that every transport goes through, with nothing configured."""

from prometheus_client import CollectorRegistry

from cloud.serving.caches.result_cache import ResultCache
from cloud.serving.caches.settings import ResultCacheSettings
from cloud.serving.inference import Inference
from cloud.serving.reliability_metrics import ReliabilityMetrics


def plain_inference() -> Inference:
    return Inference(
        {}, ResultCache(ResultCacheSettings()), ReliabilityMetrics(CollectorRegistry())
    )
