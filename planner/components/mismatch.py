"""The mismatch of demand and a uniform or a given allocation. Source: MLoRA 4.3, Eq. 2.

The paper's 74.2 % at a Gini coefficient of .876 is half of its own sum (37.1 % over and 37.1 % under are the halves of
that half): this module gives the sum of Eq. 2, and its half, the share of resources that lie where demand is not.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Mismatch(NamedTuple):
    """The distance between an allocation and demand, both in shares."""

    total: float  # [0, 2]: Eq. 2, sum of abs(allocated - demanded)
    over: float  # [0, 1]: allocated to what is asked for less
    under: float  # [0, 1]: missing where more is asked for; equals `over`


def mismatch(demand: Mapping[str, float], allocated: Mapping[str, float] | None = None) -> Mismatch:
    """Compare demand by component with the allocation, both in any unit; None for an equal allocation (Eq. 2).

    Without demand or without an allocation there is no mismatch. Raises ValueError for a negative amount.
    """
    given = dict.fromkeys(demand, 1.0) if allocated is None else allocated
    asked, held = _shares(demand), _shares(given)
    if not asked or not held:
        return Mismatch(0.0, 0.0, 0.0)
    excess = [held.get(each, 0.0) - asked.get(each, 0.0) for each in asked.keys() | held.keys()]
    over, under = sum(d for d in excess if d > 0), -sum(d for d in excess if d < 0)
    return Mismatch(over + under, over, under)


def _shares(amounts: Mapping[str, float]) -> dict[str, float]:
    for each, amount in amounts.items():
        if not amount >= 0:
            raise ValueError(f"amount of {each} must be at least 0: got {amount}")
    total = sum(amounts.values())
    return {each: amount / total for each, amount in amounts.items()} if total > 0 else {}
