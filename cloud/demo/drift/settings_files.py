"""The settings of each process of the demo, as files: what an operator would write."""

from pathlib import Path

EVALUATION = """
[evaluation] # accuracy decides here; the other figures are rough, and quick
poll_s = 0.2
latency_runs = 60
latency_rounds = 3
throughput_s = 0.1
robustness_rows = 100
fgsm_rows = 4
fgsm_directions = 4
"""
CLOUD = """\
state_dir = "cloud"
[[models]]
bundle = "{model}"
[broker]
kind = "embedded"
[api]
port = 0
"""
FLEET = """\
state_dir = "fleet"
[api]
port = 0
[broker]
url = "{broker}"
[devices]
needs_enrolment = false # the demo's broker is open, on this machine alone
[drift]
look_s = 0.25 # cameras here see as much in a second as others in minutes
[registry]
urls = ["{registry}"]
api_key_file = "{keys}/viewer.key"
"""
LEARNING = """\
state_dir = "learning"
models = ["fashion-edge"]
[api]
port = 0
[feedback]
url = "sqlite:///{folder}/cloud/feedback.db"
[worker]
beat_s = 0.5
gives_way = false # the region is on the same two cores, and somebody watches
[worker.registry]
urls = ["{registry}"]
api_key_file = "{keys}/trainer.key"
root = "{root}"
[registry]
urls = ["{registry}"]
api_key_file = "learning.key"
root = "{root}"
release_key = "{release}"
[fleet]
urls = ["{fleet}"]
[serving]
urls = ["{serving}"]
[loops]
trigger_s = 1.0
look_s = 0.5
count_s = 1.0
"""
AGENT = """\
device_id = "{name}"
state_dir = "{name}"
bundle = "{bundle}"
engine = "onnxruntime"
[uplink]
url = "{broker}"
[fleet]
telemetry_s = 1.0
[updates]
urls = ["{registry}"]
api_key_file = "{keys}/fetch.key"
root = "{root}"
poll_s = 2.0
backoff_s_max = 2.0
trial_samples = 60
trial_cpu_share = 0.5
latency_ms_max = 500.0 # these cameras share their cores with the whole region
trial_p95_ms_max = 500.0
proven_s = 1.0
[[sources]]
kind = "replay"
path = "{frames}"
rate_per_s = {rate}
"""


def quoted(path: Path) -> str:
    """As it stands between quotes in TOML."""
    return str(path.absolute()).replace("\\", "\\\\").replace('"', '\\"')
