"""Numbers by bits are a set: what was added is in it, once, also after they were packed."""

from hypothesis import given
from hypothesis import strategies as st

from replay.bench.soak.numbers import Numbers

MANY = st.lists(st.integers(0, 300), max_size=60)


@given(MANY, MANY)
def test_numbers_are_a_set_and_stay_one_when_they_are_packed(added: list[int], others: list[int]) -> None:
    mine, theirs = Numbers(), Numbers()
    assert [mine.add(number) for number in added] == [number not in added[:at] for at, number in enumerate(added)]
    for number in others:
        theirs.add(number)
    for each in (mine, Numbers(mine.packed())):
        assert len(each) == len(set(added))
        assert [number for number in range(310) if number in each] == sorted(set(added))
        assert list(each.but(theirs)) == sorted(set(added) - set(others))


def test_a_million_numbers_take_a_bit_each() -> None:
    numbers = Numbers()
    for number in range(0, 1_000_000, 2):
        numbers.add(number)
    assert len(numbers) == 500_000
    assert len(numbers._bits) <= 2 * 125_000
