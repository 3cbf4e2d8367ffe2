"""Neighbours by image: which earlier image fits a prompt best, and from which similarity on quality is kept."""

import numpy as np
import pytest

from agents.lab.profiling.reuse import by_image, orders
from agents.lab.profiling.reuse.by_image import ByImage, find_by_image, image_floors, image_neighbours
from agents.lab.profiling.reuse.observed import Marks
from planner.reuse.terms import Difference
from tests.agents.lab.profiling.reuse.seen import EQUAL, differing, marks
from tests.agents.lab.profiling.reuse.test_orders import images

__all__ = ["images"]  # a fixture

EAST, NORTH, BETWEEN = (1.0, 0.0), (0.0, 1.0), (0.6, 0.8)


def test_the_earlier_image_that_fits_the_prompt_best_is_found_whatever_its_prompt_said() -> None:
    prompts, pictures = np.array([EAST, EAST, NORTH, EAST]), np.array([NORTH, EAST, BETWEEN, NORTH])
    found = find_by_image(prompts, pictures)
    assert found.nearest.tolist() == [-1, 0, 0, 1]
    assert np.isnan(found.similarity[0])
    assert found.similarity[1:].tolist() == pytest.approx([0.0, 1.0, 1.0])
    assert found.rows.tolist() == [1, 2, 3]


def test_of_images_that_fit_alike_the_latest_is_found() -> None:
    assert find_by_image(np.array([EAST] * 3), np.array([EAST] * 3)).nearest.tolist() == [-1, 0, 1]


def test_bands_hold_all_requests_with_an_earlier_image_and_how_facts_compare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_image, "BANDS", 2)
    found = ByImage(np.array([-1, 0, 1, 0, 1]), np.array([np.nan, 0.2, 0.3, 0.7, 0.8]))
    both = differing(Difference.COLOUR, Difference.COUNT)
    rows = image_neighbours(found, ("a", "b", "c", "a", "b"), lambda one, other: EQUAL if one == other else both)
    assert [(row.similarity, row.share) for row in rows] == [(0.2, 0.4), (0.5, 0.4)]
    assert [row.verdicts for row in rows] == [{"colour": 1.0}, {"equal": 1.0}]


def floors_of(holds: dict[int, np.ndarray], similarity: np.ndarray) -> list[tuple[float, float]]:
    n = len(similarity)
    found = ByImage(np.arange(n) - 1, similarity)
    floors = image_floors(found, marks(np.ones(n, bool)), {step: marks(kept) for step, kept in holds.items()}, 4)
    return [(floor.similarity, floor.share) for floor in floors.floors]


def test_the_floor_of_each_share_is_the_lowest_similarity_that_keeps_quality(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_image, "BANDS", 10)
    similarity = np.linspace(0.0, 1.0, 1000)
    kept = {1: similarity >= 0.3, 2: similarity >= 0.6, 3: similarity >= 2.0}
    (low, low_share), (high, high_share) = floors_of(kept, similarity)
    assert (low_share, high_share) == (0.25, 0.5), "at three of four steps nothing holds"
    assert low == pytest.approx(0.3, abs=0.1)
    assert high == pytest.approx(0.6, abs=0.1)


def test_a_few_images_make_no_floor() -> None:
    assert floors_of({1: np.ones(by_image.MIN_PAIRS - 1, bool)}, np.full(by_image.MIN_PAIRS - 1, 0.5)) == []


def test_images_that_were_not_generated_say_nothing() -> None:
    unknown = Marks(np.full(100, np.nan), np.full(100, np.nan))
    found = ByImage(np.arange(100) - 1, np.linspace(0, 1, 100))
    assert image_floors(found, marks(np.ones(100, bool)), {1: unknown}, 4).floors == ()


def test_only_what_does_not_begin_from_the_nearest_prompt_s_image_is_generated_beside(images: orders.Images) -> None:
    found = ByImage(np.array([-1, 0, 0, 2, 3, 4]), np.array([np.nan, *[0.5] * 5]))
    assert images.by_image_rows(found).tolist() == [], "request 1 begins from image 0 either way"
    assert images.by_image(np.zeros(6), found) == {}  # type: ignore[arg-type]
