"""Optimal plans on a busy machine: solvers get so much time that none is stopped before it has proven its optimum.

With the project's own limits of a second or two, a plan and the reason it states depend on how busy the machine is.
"""

import contextlib
import functools
from collections.abc import Iterator
from unittest import mock

import pulp

LIMIT_S = 120


@contextlib.contextmanager
def without_time_limit() -> Iterator[None]:
    """Replace the time limit of every program in PuLP that is solved in the block."""
    original = pulp.HiGHS

    @functools.wraps(original)
    def patient(*arguments: object, **options: object) -> object:
        return original(*arguments, **{**options, "timeLimit": LIMIT_S})

    with mock.patch.object(pulp, "HiGHS", patient):
        yield
