"""What the clients of `broker_rules` choose from."""

from typing import Any

from hypothesis import strategies as st

from cloud.broker.limits import Limits
from tests.cloud.broker.router.reference import GROUPS

LIMITS = Limits(session_expiry_s_max=100, inflight_max=4)
WALL_S = 1_000.0
"""Unix time where the broker's clock says 0."""
CLIENTS = ("c0", "c1", "c2")
NAMES = st.sampled_from(CLIENTS)
WHO = st.integers(0, 5)
"""One of those connected, counted through."""
TOPICS = st.sampled_from(["a/x", "a/y", "b"])
FILTERS = st.sampled_from(["a/x", "a/+", "#"])
SHARED = st.sampled_from([f"$share/{group}/{GROUPS[group]}" for group in GROUPS])
EXPIRY_S = 4
TURNS_MAX = 1_000
"""Each reads and answers once in a turn; a test has a few hundred messages at most."""
QOS: Any = st.sampled_from([0, 1, 2])
SHARED_QOS: dict[str, Any] = {"$share/g/a/+": 1, "$share/h/b": 2}
