"""From a policy to the draft that is published: what a deployment asks of every policy, in one order."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from planner.catalog.parse import Catalog
from planner.control.exploration import explored
from planner.control.proposal import Draft
from planner.control.shedding import with_admission
from planner.observation.observation import Observation
from planner.policies import named


class Rules(NamedTuple):
    """What holds whichever policy plans."""

    sheds: bool = True  # what no worker has time for is turned away by tier; else it expires at its deadline
    explore: float = 0.0  # share of first levels drawn evenly, [0, 1]


def made(
    policy: str,
    seen: Observation,
    catalog: Catalog,
    memory: Mapping[str, Any],
    parameters: Mapping[str, float],
    rules: Rules,
) -> Draft:
    """The policy's draft under the rules. Raises Unknown for a policy or parameter, and whatever the policy raises."""
    draft = named(policy)(seen, catalog, memory, parameters)
    return let_in(explored(draft, rules.explore), seen, catalog, rules)


def let_in(draft: Draft, seen: Observation, catalog: Catalog, rules: Rules) -> Draft:
    """A draft that is there already, such as an earlier plan's: its routes stay, who is let in is decided anew."""
    return with_admission(draft, seen, catalog) if rules.sheds else draft
