"""The catalog of the papers' judges on the tiny family: each policy decides by those of its own paper."""

import dataclasses

import numpy as np
import pytest

from agents.classifier.judges import open_judge, read_reference
from agents.discriminator.scorers import open_scorers
from planner.catalog.model import Catalog
from planner.control.proposal import PlanProposal
from planner.policies import named
from planner.serving.routing.placement import route_of
from streams import catalogs
from streams.shipped import INFRA
from tests.builders import a_plan, a_request, an_observation

PROMPTS = (
    "two blue stars",
    "a red heart",
    "a red heart above a blue star",
    "four orange fish below two purple boats next to three white trees that are not red",
)
WORKERS, SLO_MS = 4, 2000.0


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return catalogs.measured("papers")


def drafted(policy: str, catalog: Catalog, demand_rps: float, **parameters: float) -> PlanProposal:
    seen = an_observation(WORKERS, demand_rps=demand_rps, slo_ms=SLO_MS)
    return named(policy)(seen, catalog, {}, parameters)


def test_diffserve_judges_by_real_against_generated_images(catalog: Catalog) -> None:
    few, many = (drafted("diffserve", catalog, demand_rps).cascades[0] for demand_rps in (5.0, 30.0))
    assert (many.level, many.discriminator, many.next_level) == ("light", "real", "heavy")
    assert 0 < many.threshold < few.threshold


def test_hadis_routes_by_the_searched_rules_and_judges_by_what_it_was_measured_with(catalog: Catalog) -> None:
    first = next(iter(catalog.classifiers.values()))
    weights = read_reference(INFRA / first.folder / "reference.json").weights
    assert (first.engine, weights["abstractness"]) == ("rules", 0.7784)
    few, many = (drafted("hadis", catalog, demand_rps) for demand_rps in (5.0, 120.0))
    assert {plan.cascades[0].discriminator for plan in (few, many)} == {"embedding"}
    assert (few.cascades[0].level, many.cascades[0].level) == ("middle", "light"), "the pair changes with the load"
    assert 0 < few.routes[0].hardness_to < 1, "hard prompts go straight to heavy"


@pytest.mark.parametrize("reuse", [0, 1])
def test_argus_has_a_row_for_each_class_of_both_strategies(catalog: Catalog, reuse: int) -> None:
    strategy = ("models", "reuse")[reuse]
    plan = drafted("argus", catalog, 20.0, reuse=reuse)
    assert plan.strategy == strategy
    assert {route.label for route in plan.routes} == {"", *catalog.classes(strategy)}


@pytest.mark.torch
def test_argus_begins_images_of_prompts_of_other_classes_at_other_steps_and_by_chance_without_its_classifier(
    catalog: Catalog,
) -> None:
    """Demand for which the fleet reuses on two levels: which of them is a prompt's is its predicted class."""

    def levels(known: Catalog) -> set[str]:
        judge, plan = open_judge(known), drafted("argus", known, 16.0)
        obeyed = a_plan(strategy=plan.strategy, routes=plan.routes)
        judged = [judge.classify(prompt) for prompt in PROMPTS]
        return {str(route_of(obeyed, each.hardness, each.classes).levels) for each in judged}

    others = {name: each for name, each in catalog.classifiers.items() if each.strategy != "reuse"}
    assert len(levels(catalog)) > 1
    assert len(levels(dataclasses.replace(catalog, classifiers=others))) == 1


@pytest.mark.torch
def test_each_judge_of_the_catalog_opens_and_judges(catalog: Catalog) -> None:
    judged = open_judge(catalog).classify(PROMPTS[0])
    assert judged.classes.keys() == {"models", "reuse"}
    assert 0 <= judged.hardness <= 1
    image = np.full((48, 48, 3), 200, np.uint8)
    for scorer in open_scorers(catalog).values():
        (confidence,) = scorer.score([a_request(prompt=PROMPTS[1])], [image])
        assert 0 < confidence < 1
