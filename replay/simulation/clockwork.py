"""The times of a deployment that its settings fix, as the simulator takes them."""

from planner.backlog import limit_ms
from planner.options import TIERS
from replay.simulation.setup import Timing
from streams.settings import Settings


def timing_of(settings: Settings, *, loads: bool = True) -> Timing:
    """Of a deployment with these settings; without `loads` a worker changes variant in no time."""
    asked = settings.admission
    limits = {tier: limit_ms(asked.max_backlog_s, tier, asked.interactive_headroom) for tier in TIERS}
    return Timing(
        beat_ms=settings.worker.heartbeat_ms,
        silent_ms=settings.planner.worker_silent_ms,
        session_ms=settings.kafka.session_timeout_ms,
        grace_ms=1000 * settings.ledger.grace_s,
        most_backlog_ms=limits["standard"],
        interactive_backlog_ms=limits["interactive"],
        max_attempts=settings.worker.max_attempts,
        loads=loads,
    )
