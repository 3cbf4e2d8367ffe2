"""The process that `pochade bench reuse` starts, but for the deadline of its lookups: a busy machine cuts none."""

import functools
import sys

from agents.lab.reuse_bench.__main__ import main
from agents.worker import lookups, reuse
from planner.reuse.lookups.deadline import DeadlineRule

if __name__ == "__main__":
    patient = functools.partial(lookups.Lookups, deadlines=DeadlineRule(max_ms=60_000, share=1000.0))
    reuse.Lookups = patient  # type: ignore[assignment, misc]
    sys.exit(main())
