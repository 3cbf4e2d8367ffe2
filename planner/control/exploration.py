"""A small share of first levels drawn evenly, so that the past can answer for other plans (`analysis/off_policy.py`).

Many routes send everything one way; history then has no example of any other. Source: mission-table C.5's exploration
floor; epsilon-greedy logging as in Bottou et al., Counterfactual reasoning and learning systems, section 4.
"""

from dataclasses import replace

from planner.control.proposal import Draft
from schemas.messages import Route


def explored(draft: Draft, share: float) -> Draft:
    """The draft with `share` in [0, 1] of each route spread evenly over the levels that workers serve.

    Levels that the plan gives no worker are never explored, and a level it routes to keeps 1 - share of its part.
    """
    served = sorted(set(draft.allocation.values()))
    if not share or not served:
        return draft
    return replace(draft, routes=tuple(_mixed(route, served, share) for route in draft.routes))


def _mixed(route: Route, served: list[str], share: float) -> Route:
    levels = {name: (1 - share) * odds for name, odds in route.levels.items()}
    for name in served:
        levels[name] = levels.get(name, 0.0) + share / len(served)
    return replace(route, levels=levels)
