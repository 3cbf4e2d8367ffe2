"""Answers of a model's methods that are asked again and again, remembered by what they depend on.

Of hundreds of plans that are valued for one moment most differ from another by one change: its routes, or the workers
of two variants, or a threshold. What does not depend on the change is not worked out again.
"""

from collections.abc import Callable, Hashable
from functools import wraps
from operator import attrgetter
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from planner.control.proposal import PlanProposal

P = ParamSpec("P")
T = TypeVar("T")
V = TypeVar("V", bound=Hashable)
F = TypeVar("F")

Memory = dict[Hashable, Any]


class Remembers(Protocol):
    """A model with a memory, which lives as long as the model."""

    remembered: Memory


M = TypeVar("M", bound=Remembers)


def by_value(method: Callable[[M, V], T]) -> Callable[[M, V], T]:
    """Remember a method's answer for a value."""

    @wraps(method)
    def known(model: M, value: V) -> T:
        key = method.__name__, value
        if key not in model.remembered:
            model.remembered[key] = method(model, value)
        answer: T = model.remembered[key]
        return answer

    return known


def by_numbers(
    flow_type: type[F], *others: str
) -> Callable[[Callable[Concatenate[M, str, F, P], T]], Callable[Concatenate[M, str, F, P], T]]:
    """Remember a method's answer for a variant by its flow, but for `others` of the flow's slots.

    Of a plan among the arguments the variant's batch and the dispatch count alone; the rest must be hashable.
    """
    numbers_of = attrgetter(*(name for name in flow_type.__dict__["__slots__"] if name not in others))

    def decorated(method: Callable[Concatenate[M, str, F, P], T]) -> Callable[Concatenate[M, str, F, P], T]:
        @wraps(method)
        def known(model: M, name: str, flow: F, /, *rest: P.args, **named: P.kwargs) -> T:
            assert not named, "arguments in their places alone"
            counts = [(one.batch.get(name, 1), one.dispatch) if isinstance(one, PlanProposal) else one for one in rest]
            key = (method.__name__, name, numbers_of(flow), *counts)
            if key not in model.remembered:
                model.remembered[key] = method(model, name, flow, *rest, **named)
            answer: T = model.remembered[key]
            return answer

        return known

    return decorated
