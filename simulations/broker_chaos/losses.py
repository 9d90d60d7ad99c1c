"""What a slow reader missed, held against what the broker says it dropped for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cloud.broker.operations.admin_client import AdminClient
from cloud.broker.operations.admin_socket import socket_path
from simulations.broker_chaos.checks import Verdict
from simulations.broker_chaos.history import ROLES, History

QUEUE_FULL: Final = "queue_full"


@dataclass(slots=True)
class Losses:
    """Counts of one life of the broker: they begin anew with it."""

    since: int = 0
    """When it was ready, in nanoseconds of `journal.now`."""
    counted: Mapping[str, int] | None = field(default=None)
    """By client: what the broker dropped for it; None where it cannot be asked."""

    def verdict(self, history: History) -> Verdict:
        """Nothing was missed without being counted."""
        verdict = Verdict("slow reader: all that it missed was counted", 0)
        if self.counted is None:
            verdict.note = "the broker was not asked"
            return verdict
        missed_in_all = 0
        for client_id in (role.client_id for role in ROLES.values() if role.may_miss):
            missed = [
                sent
                for sent in history.succeeded()
                if sent.at > self.since
                and history.subscribed(client_id, sent.topic)
                and not history.copies[client_id][sent.message]
            ]
            missed_in_all += len(missed)
            if len(missed) > self.counted.get(client_id, 0):
                verdict.wrong.append(
                    f"{client_id} missed {len(missed)} messages since the broker's last start, "
                    f"{self.counted.get(client_id, 0)} were counted; one is {missed[0].message}"
                )
        verdict.looked_at = missed_in_all
        verdict.note = f"{sum(self.counted.values())} counted"
        return verdict


def counted_losses(state_dir: Path) -> dict[str, int]:
    """Ask the broker what it dropped for want of room, by client."""
    page = AdminClient(socket_path(state_dir)).sessions(prefix="")
    return {
        row.client_id: row.dropped[QUEUE_FULL] for row in page.sessions if QUEUE_FULL in row.dropped
    }
