"""Where brokers differ, and why a test asserts something else for one of them."""

from dataclasses import dataclass

from tests.brokers import BrokerKind


@dataclass(frozen=True)
class Capabilities:
    """What the contract leaves open, each with the reason of the broker that lacks it."""

    hands_over_unacknowledged: bool = True
    """Mosquitto 2.0.11 discards what a share group's member had not acknowledged when it died."""
    says_taken_over: bool = True
    """Mosquitto 2.0.11 closes the older connection without a DISCONNECT 0x8E."""
    merges_overlapping: bool = True
    """Mosquitto 2.0.11 sends one for each subscription, as 3.3.4 allows; over 3.1.1 it sends one,
    with the QoS of any of them (against 3.1.1 section 3.3.5-1)."""
    keeps_retained_from_share_groups: bool = True
    """Mosquitto 2.0.11 sends retained messages to a new member (against 3.3.1.3)."""
    checks_share_filters: bool = True
    """Mosquitto 2.0.11 grants `$share/g` and no local on a good filter, and closes over others."""
    keeps_to_the_window: bool = True
    """Mosquitto 2.0.11 has one message more in flight than the Receive Maximum, after an ack."""
    keeps_to_its_receive_maximum: bool = True
    """Mosquitto 2.0.11 takes more where DISCONNECT 0x93 is due (3.3.4-9)."""
    words_alias_zero: bool = True
    """Mosquitto 2.0.11 calls alias 0 malformed (0x81) instead of invalid (0x94)."""
    sets_aliases: bool = True
    """Mosquitto 2.0.11 never uses an alias towards a client, which is its right."""
    ends_a_wills_delay_with_its_session: bool = True
    """Mosquitto 2.0.11 waits for the delay though a session of no expiry ended (3.1.3-9)."""
    bounds_keep_alive: bool = True
    """Mosquitto's bound, `max_keepalive`, stays at its default in the configuration made for it."""
    never_says_success_falsely: bool = True
    """Mosquitto 2.0.11 acknowledges a refused publish over 3.1.1 as if it had been taken."""
    refuses_filters: bool = True
    """Mosquitto 2.0.11 grants every filter and keeps back what may not be read."""
    judges_wills_at_connect: bool = True
    """Mosquitto 2.0.11 takes a will that it will not publish."""
    refuses_foreign_client_ids: bool = True
    """Mosquitto 2.0.11, where certificates bind client ids, puts the bound one in silently."""


CAPABILITIES: dict[BrokerKind, Capabilities] = {
    "embedded": Capabilities(),
    "mosquitto": Capabilities(
        hands_over_unacknowledged=False, says_taken_over=False, merges_overlapping=False,
        keeps_retained_from_share_groups=False, checks_share_filters=False,
        keeps_to_the_window=False, keeps_to_its_receive_maximum=False,
        words_alias_zero=False, sets_aliases=False, ends_a_wills_delay_with_its_session=False,
        bounds_keep_alive=False,
        never_says_success_falsely=False,
        refuses_filters=False,
        judges_wills_at_connect=False,
        refuses_foreign_client_ids=False,
    ),
}  # fmt: skip
