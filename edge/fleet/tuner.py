"""Puts a device profile into force: routing, budgets, telemetry, updates and log level at once."""

import logging
from typing import TYPE_CHECKING

from edge.agent import Agent
from edge.config import Config
from edge.fleet.profile import Tuning, tuned
from edge.fleet.telemetry_loop import TelemetryLoop
from shared.fleet.desired import DesiredProfile

if TYPE_CHECKING:
    from edge.updates.updates import Updates


class Tuner:
    def __init__(
        self, config: Config, agent: Agent, updates: "Updates | None", telemetry: TelemetryLoop
    ) -> None:
        assert config.fleet is not None
        self._agent, self._updates, self._telemetry = agent, updates, telemetry
        own = config.updates
        self._own = Tuning(
            config.routing, config.fleet.telemetry_s, config.log_level,
            () if own is None else own.windows, None if own is None else own.bytes_per_s,
        )  # fmt: skip
        self._now = self._own

    def tune(self, profile: DesiredProfile | None, audit_share: float | None) -> None:
        """All of it or nothing.

        Raises `Unknown` for a threshold that the active bundle does not have, `Malformed` for an
        update window that is none.
        """
        before = self._now
        wanted = tuned(self._own, None if profile is None else profile.settings, audit_share)
        if wanted.routing != before.routing:
            self._agent.retune(wanted.routing)  # the one step that may refuse
        self._telemetry.retune(wanted.telemetry_s)
        if wanted.log_level != before.log_level:
            logging.getLogger().setLevel(wanted.log_level.upper())
        if self._updates is not None and wanted != before:
            self._updates.retune(wanted.update_windows, wanted.update_bytes_per_s)
        self._now = wanted
