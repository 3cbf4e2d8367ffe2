"""Reads a deployment's settings for the simulator: its times, its tenants' quotas, and how its fleet is scaled."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.control.proposal import ALWAYS
from planner.scaling.fleet import ScaleRules
from planner.serving.admission.quotas import Quota
from planner.serving.routing.routing import backlog_limits
from replay.simulation.draws.hop_latencies import NO_LATENCIES, HopLatencies
from replay.simulation.setup import FIXED, Residency, Timing
from schemas.errors import PochadeError
from streams.kafka.groups.group_terms import group_beat_ms
from streams.parsing.scale_rules import scale_rules
from streams.settings import Settings

ONE_MODEL = Residency()


def timing_of(
    settings: Settings,
    *,
    loads: bool = True,
    hops: HopLatencies = NO_LATENCIES,
    residency: Residency = ONE_MODEL,
) -> Timing:
    """Timing of a deployment with these settings; without `loads` a worker changes variant in no time."""
    asked = settings.admission
    limits = backlog_limits(asked.max_backlog_s, asked.interactive_headroom)
    return Timing(
        beat_ms=settings.worker.heartbeat_ms,
        silent_ms=settings.planner.worker_timeout_ms,
        session_ms=settings.kafka.session_timeout_ms,
        group_beat_ms=group_beat_ms(settings.kafka.session_timeout_ms) if loads else 0,
        grace_ms=1000 * settings.ledger.deadline_grace_s,
        most_backlog_ms=limits.others_ms,
        interactive_backlog_ms=limits.interactive_ms,
        job_limit_ms=1000 * settings.worker.job_timeout_s,
        loads=loads,
        residency=residency,
        hops=hops,
    )


def scale_of(settings: Settings, asked: Mapping[str, Any]) -> ScaleRules:
    """Return how the fleet is scaled: by the settings and, where given, the command's options; without one not at all.

    Raises PochadeError for options that contradict each other.
    """
    most, workers = asked["max_workers"], asked["workers"]
    if most is None:
        return FIXED
    given = {"warm": asked["pool"], "minimum": dict(asked["minima"]) or None}
    seconds = {"start_ms": asked["start_s"], "period_ms": asked["scale_period_s"]}
    changes = {name: value for name, value in given.items() if value is not None}
    changes |= {name: 1000 * value for name, value in seconds.items() if value is not None}
    rules = replace(scale_rules(settings.planner.scale, most), when=ALWAYS, **changes)
    if workers + rules.warm > most:
        raise PochadeError(
            f"--max-workers must be at least {workers + rules.warm}, --workers and the pool at the start: got {most}"
        )
    return rules


def quotas_of(settings: Settings) -> dict[str, Quota]:
    """tenant -> what it may have; others share without limits of their own."""
    return {name: Quota(**limits.model_dump()) for name, limits in settings.tenants.items()}
