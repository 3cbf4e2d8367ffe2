"""What is wrong with a published text is told with file and line."""

import pytest

from planner.catalog.published.lines import InvalidPublished, grouped, lines


def test_lines_know_where_they_stand_and_blank_ones_do_not_count() -> None:
    found = list(lines("\ufeffa,b\r\n1,2\r\n\r\n3,4\r\n", "x.csv", ("a",)))
    assert [(line.where, dict(line.cells)) for line in found] == [
        ("x.csv:2", {"a": "1", "b": "2"}), ("x.csv:4", {"a": "3", "b": "4"}),
    ]  # fmt: skip


def test_a_quoted_cell_may_hold_commas() -> None:
    (line,) = lines('prompt,n\n"a cat, a dog",2\n', "x.csv", ("prompt", "n"))
    assert line.cells["prompt"] == "a cat, a dog"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", r"x\.csv:1: no column a: got nothing"),
        ("b,c\n1,2\n", r"x\.csv:1: no column a: got b, c"),
        ("a,b\n1\n", r"x\.csv:2: 2 columns are needed: got 1"),
        ("a,b\n", r"x\.csv has a header and no line below it"),
    ],
)
def test_a_text_of_another_form_is_refused(text: str, told: str) -> None:
    with pytest.raises(InvalidPublished, match=told):
        list(lines(text, "x.csv", ("a",)))


@pytest.mark.parametrize(("cell", "told"), [("x", "a number: got 'x'"), ("nan", "finite"), ("1.5", r"in \[0, 1\]")])
def test_a_cell_that_is_no_number_in_range_is_refused(cell: str, told: str) -> None:
    (line,) = lines(f"a\n{cell}\n", "x.csv", ("a",))
    with pytest.raises(InvalidPublished, match=rf"x\.csv:2: a must be .*{told}"):
        line.number("a", 0, 1)


def test_a_share_of_a_thing_is_no_whole_number() -> None:
    (line,) = lines("a\n1.5\n", "x.csv", ("a",))
    with pytest.raises(InvalidPublished, match=r"x\.csv:2: a must be a whole number: got '1.5'"):
        line.whole("a")


def test_rows_are_grouped_by_prompt_and_a_rest_is_refused() -> None:
    assert grouped([0.1, 0.2, 0.3, 0.4], 2, "x.csv") == ((0.1, 0.2), (0.3, 0.4))
    with pytest.raises(InvalidPublished, match=r"x\.csv must have a multiple of 2 rows"):
        grouped([0.1], 2, "x.csv")
