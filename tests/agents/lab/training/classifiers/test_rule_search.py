"""The search for rule weights, on features that are known to matter."""

import numpy as np
import pytest

from agents.lab.training.classifiers import rule_search
from planner.serving.hardness import FEATURES

RELATIONS = FEATURES.index("spatial_relations")


def painted(seed: int, count: int = 400) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Normalised features, and qualities where light fails by the number of relations alone, and by chance."""
    rng = np.random.default_rng(seed)
    normal = rng.random((count, len(FEATURES)))
    light = (rng.random(count) > normal[:, RELATIONS]).astype(float)
    return normal, light, np.ones(count)


@pytest.fixture(scope="module")
def weights() -> dict[str, float]:
    return rule_search.search(*painted(1), seed=3)


def test_the_search_finds_the_feature_that_matters(weights: dict[str, float]) -> None:
    assert sum(weights.values()) == pytest.approx(1, abs=0.001)
    assert min(weights.values()) >= 0
    assert max(weights, key=lambda name: weights[name]) == "spatial_relations"
    assert weights["spatial_relations"] > 0.6
    assert weights == rule_search.search(*painted(1), seed=3)


def test_the_search_goes_on_around_the_best_that_was_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_search, "DRAWS", 0)  # but each feature alone, and all alike
    monkeypatch.setattr(rule_search, "REFINED", 60)
    normal, _, heavy = painted(1)
    light = 1 - normal[:, :2] @ [0.6, 0.4]
    found = rule_search.search(normal, light, heavy, seed=3)
    assert min(found[name] for name in FEATURES[:2]) > 0.15
    assert sum(found[name] for name in FEATURES[:2]) > 0.8


def test_on_other_prompts_it_beats_random_and_equal_weights(weights: dict[str, float]) -> None:
    normal, light, heavy = painted(2)
    told = rule_search.report(normal, weights, light, heavy, {"relations": normal[:, RELATIONS]}, seed=4)
    assert told["prompts"] == 400
    assert told["random_routers"]["auc"]["beaten_by_searched"] >= 0.9 * rule_search.ROUTERS
    assert told["searched"]["auc"] > told["equal_weights"]["auc"] + 0.1
    assert told["relations"]["auc"] == pytest.approx(told["searched"]["auc"], abs=0.03)


def test_a_score_that_knows_nothing_recovers_nothing_and_one_that_knows_all_recovers_all() -> None:
    _, light, heavy = painted(5)
    blind = rule_search.merits(np.zeros(400), light, heavy)
    seeing = rule_search.merits(heavy - light, light, heavy)
    assert (blind["auc"], blind["overall_recovery"]) == (0.5, 0.0)
    assert (seeing["auc"], seeing["recovery_at_half"], seeing["overall_recovery"]) == (1.0, 1.0, 1.0)


def test_light_is_the_class_up_to_the_first_tenth_where_it_is_not_good_enough() -> None:
    hardness = np.linspace(0, 1, 1001)
    light = np.where((hardness < 0.4) | (hardness > 0.8), 0.95, 0.5)
    assert rule_search.class_cut(hardness, light, np.ones(1001)) == 0.4
    assert rule_search.class_cut(hardness, np.full(1001, 0.91), np.ones(1001)) == 1.0
    assert rule_search.class_cut(hardness, np.full(1001, 0.5), np.ones(1001)) == 0.0


def test_counts_become_a_row_of_normalised_features() -> None:
    from planner.serving.hardness import PromptFeatures

    counts = PromptFeatures(**dict.fromkeys(FEATURES, 2))
    assert rule_search.matrix([counts, counts]).shape == (2, 8)
    assert rule_search.matrix([]).shape == (0, 8)
