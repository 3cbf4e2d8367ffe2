"""Gauges of the leading planner: the fleet, and the plan's expectations beside actual figures."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from planner.observation.observation import Observation
from planner.observation.workers import OUT, SERVING, ReceivedHeartbeat, standing_of
from schemas.messages import Expected, Plan
from streams import metrics

SILENT, BUSY = "silent", "painting"
NOTHING: Final = Expected(demand_rps=0.0, utilization=0.0, heavy_share=0.0)


class FleetGauges:
    """The gauges of one planner. They are 0 while another one leads, so that they may be summed or maximised."""

    def __init__(self, silent_ms: int) -> None:
        """`silent_ms`: a worker without a heartbeat for longer is silent."""
        self._silent_ms = silent_ms
        self._states: set[str] = set()  # shown before: what is there no more is 0
        self._variants: set[str] = set()
        self._looks = self._busy = 0.0  # since the last plan: looks at the fleet, and sum of its busy shares
        self._is_leading = False

    def leads(self, is_leading: bool) -> None:
        """Note whether this planner leads."""
        metrics.PLANNER_LEADS.set(is_leading)
        if self._is_leading and not is_leading:
            self._stand_by()
        self._is_leading = is_leading

    def on_heartbeats(self, heartbeats: Mapping[str, ReceivedHeartbeat], now_ms: int) -> None:
        """Take in the last heartbeat of each worker."""
        states, serving, busy = Counter[str](), Counter[str](), 0
        backlog_ms = Counter[str]()
        for beat in heartbeats.values():
            heartbeat, standing = beat.heartbeat, standing_of(beat, now_ms, self._silent_ms)
            if standing == "gone":
                continue
            states[heartbeat.state if standing != SILENT else SILENT] += 1
            if standing == SILENT or heartbeat.state in OUT:
                continue
            if heartbeat.variant:
                backlog_ms[heartbeat.variant] += sum(owned.remaining_ms for owned in heartbeat.partitions)
            if heartbeat.state in SERVING:
                serving[heartbeat.variant] += 1
                busy += heartbeat.state == BUSY
        self._show(states, serving, backlog_ms)
        if serving:
            self._looks += 1
            self._busy += busy / serving.total()

    def _show(self, states: Mapping[str, int], serving: Mapping[str, int], backlog_ms: Mapping[str, int]) -> None:
        self._states |= states.keys()
        self._variants |= serving.keys() | backlog_ms.keys()
        for state in self._states:
            metrics.WORKERS.labels(state).set(states.get(state, 0))
        for variant in self._variants:
            metrics.SERVING_WORKERS.labels(variant).set(serving.get(variant, 0))
            metrics.BACKLOG_SECONDS.labels(variant).set(backlog_ms.get(variant, 0) / 1000)

    def on_observation(self, seen: Observation, plan: Plan | None) -> None:
        """Show an observation beside the expectations of the plan in force."""
        expected = (plan.expected if plan is not None else None) or NOTHING
        self._show_expected(expected)
        metrics.DEMAND.labels("seen").set(seen.demand_rps)
        metrics.IN_TIME.set(1.0 if seen.served.in_time is None else seen.served.in_time)
        if self._looks:
            metrics.UTILIZATION.labels("seen").set(self._busy / self._looks)
            self._looks = self._busy = 0.0

    def _show_expected(self, expected: Expected) -> None:
        metrics.DEMAND.labels("expected").set(expected.demand_rps)
        metrics.UTILIZATION.labels("expected").set(expected.utilization)
        metrics.EXPECTED_HEAVY_SHARE.set(expected.heavy_share)
        metrics.EXPECTED_QUALITY.set(expected.quality or 0.0)

    def _stand_by(self) -> None:
        self._looks = self._busy = 0.0
        self._show({}, {}, {})
        self._show_expected(NOTHING)
        metrics.DEMAND.labels("seen").set(0)
        metrics.UTILIZATION.labels("seen").set(0)
        metrics.IN_TIME.set(0)
