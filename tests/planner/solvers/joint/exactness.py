"""How many random instances the exactness tests look at: as many as take a second or two, or all with an environment
variable: `POCHADE_INSTANCES=300 pytest tests/planner/solvers/joint` (some minutes)."""

import os


def seeds(few: int) -> range:
    """Of the instances; `few` where nobody asked for more."""
    return range(int(os.environ.get("POCHADE_INSTANCES", few)))
