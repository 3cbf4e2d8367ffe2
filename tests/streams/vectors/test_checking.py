"""Whatever a store returns is judged again: by a store that lies, each rule is shown to hold without its filters."""

import math
from dataclasses import replace

import pytest
from prometheus_client import REGISTRY

from streams.vectors.checking import CheckedVectorStore
from streams.vectors.exact import ExactVectorStore
from streams.vectors.port import Dropped, Match, Nearest, Selection, UnusableRow, VectorRow
from tests.streams.vectors.rows import CALL_S, EAST, NORTH, NORTH_EAST, NOW_MS, WANTED, a_row

WRONG = {
    Dropped.TENANT: a_row(tenant="mallory"),
    Dropped.MODEL: a_row(model="model-2"),
    Dropped.SIZE: a_row(height=128),
    Dropped.EXPIRED: a_row(expires_ms=NOW_MS),
    Dropped.DIMENSION: a_row(vector=(*EAST, 0.0)),
}


class LyingStore(ExactVectorStore):
    """Returns what it was told to, whoever asks, and says that each of its rows is the same prompt."""

    def __init__(self, *rows: VectorRow, damaged: int = 0) -> None:
        super().__init__()
        self._found = Nearest(tuple(Match(row, 1.0) for row in rows), {Dropped.DAMAGED: damaged} if damaged else {})

    def nearest(self, *_: object) -> Nearest:
        return self._found


def found(*rows: VectorRow, damaged: int = 0, limit: int = 10) -> Nearest:
    return CheckedVectorStore(LyingStore(*rows, damaged=damaged)).nearest(EAST, WANTED, limit, CALL_S)


@pytest.mark.parametrize("reason", WRONG)
def test_a_row_that_is_not_wanted_is_dropped_and_counted(reason: Dropped) -> None:
    counted = found(WRONG[reason], a_row(id="right"))
    assert [match.row.id for match in counted.matches] == ["right"]
    assert counted.dropped == {reason: 1}


def test_a_row_of_which_everything_is_wrong_is_dropped_as_another_tenants() -> None:
    assert found(a_row(tenant="mallory", model="model-2", expires_ms=NOW_MS)).dropped == {Dropped.TENANT: 1}


def test_drops_are_counted_in_a_metric_by_reason() -> None:
    name, labels = "pochade_vectors_dropped_total", {"reason": "damaged"}
    before = REGISTRY.get_sample_value(name, labels) or 0
    assert found(a_row(), damaged=2).dropped == {Dropped.DAMAGED: 2}
    assert REGISTRY.get_sample_value(name, labels) == before + 2


def test_the_similarity_is_that_of_the_vectors_and_not_the_stores_word() -> None:
    rows = (a_row(id="north", vector=NORTH), a_row(id="between", vector=NORTH_EAST), a_row(id="east", vector=EAST))
    similar = {match.row.id: match.similarity for match in found(*rows).matches}
    assert list(similar) == ["east", "between", "north"]
    assert similar == pytest.approx({"east": 1, "between": math.sqrt(0.5), "north": 0})


def test_a_row_that_is_returned_twice_counts_once_and_no_more_than_the_limit_are_returned() -> None:
    rows = [a_row(id=f"row-{number}") for number in (1, 1, 2, 3)]
    assert [match.row.id for match in found(*rows, limit=2).matches] == ["row-1", "row-2"]


@pytest.mark.parametrize("vector", [(), (0.0,) * 8, (math.nan,) * 8, (math.inf,) * 8, (1e300,) * 8, (1.0,) * 5000])
def test_nothing_is_searched_for_a_vector_without_a_direction(vector: tuple[float, ...]) -> None:
    with pytest.raises(UnusableRow):
        CheckedVectorStore(LyingStore(a_row())).nearest(vector, WANTED, 1, CALL_S)


@pytest.mark.parametrize(
    "changes",
    [
        {"id": ""}, {"id": 'x" or 1 == 1'}, {"id": "x" * 129}, {"vector": ()}, {"vector": (math.nan,)}, {"width": 0},
        {"expires_ms": NOW_MS - 10**9}, {"created_ms": -1}, {"expires_ms": 2**63},
    ],
)  # fmt: skip
def test_a_row_that_could_not_be_searched_by_is_no_row(changes: dict[str, object]) -> None:
    with pytest.raises(UnusableRow):
        a_row(**changes)


def test_a_selection_takes_only_ids_that_a_row_may_have() -> None:
    with pytest.raises(UnusableRow):
        Selection(ids=("good", 'bad" or 1 == 1'))


def test_a_selection_holds_for_rows_for_which_all_of_it_does() -> None:
    row = a_row()
    assert Selection().holds(row)
    assert Selection(ids=(row.id,), tenant=row.tenant, model=row.model, expired_ms=row.expires_ms).holds(row)
    for other in (
        Selection(ids=()),
        Selection(tenant="mallory"),
        Selection(model="model-2"),
        Selection(expired_ms=row.expires_ms - 1),
        Selection(created_before_ms=row.created_ms),
    ):
        assert not other.holds(row)
        assert not replace(other, tenant=other.tenant or row.tenant).holds(row)
