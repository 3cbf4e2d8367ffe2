"""How far the machines go: a second or two each in an ordinary run, further with environment variables.

They do not begin with POCHADE_: such are settings, and an unknown one is an error."""

import os

from hypothesis import HealthCheck, settings

STEPS = int(os.environ.get("MODEL_STEPS", 40))
RUNS = int(os.environ.get("MODEL_RUNS", 0))


def depth(runs: int) -> settings:
    """Of one machine: so many runs, the same each time; others with MODEL_RUNS."""
    return settings(
        max_examples=RUNS or runs,
        stateful_step_count=STEPS,
        derandomize=not RUNS,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
