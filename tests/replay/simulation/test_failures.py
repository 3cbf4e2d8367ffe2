"""Files of failures, good and bad."""

import pathlib

import pytest

from replay.simulation.failures import InvalidFailures, read_failures, unheeded
from tests.builders import a_catalog
from tests.planner.solvers.levels.builders import a_reuse_ladder
from tests.replay.simulation.runs import down, up

IDS = ["w-00", "w-01", "w-02"]


def written(folder: pathlib.Path, text: str) -> pathlib.Path:
    path = folder / "failures.csv"
    path.write_text(text)
    return path


def test_changes_are_read_in_order_of_time_by_id_or_number(tmp_path: pathlib.Path) -> None:
    path = written(tmp_path, "at_s,worker,change\n20,w-01,up\n 2.5, 1, down\n\n3,w-00,down\n")
    assert read_failures(path, IDS) == (down(2.5, "w-01"), down(3, "w-00"), up(20, "w-01"))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", ":1: expected the columns at_s,worker,change, got 'nothing'"),
        ("time,worker\n", ":1: expected the columns"),
        ("at_s,worker,change\n", "has a header and no changes"),
        ("at_s,worker,change\n1,w-00,down\nsoon,w-00,up\n", ":3: at_s is not a number of seconds: 'soon'"),
        ("at_s,worker,change\n-1,w-00,down\n", ":2: at_s must be 0 or more: got -1"),
        ("at_s,worker,change\nnan,w-00,down\n", ":2: at_s must be 0 or more"),
        ("at_s,worker,change\n1,w-07,down\n", ":2: no worker 'w-07': there are w-00 to w-02, or 0 to 2"),
        ("at_s,worker,change\n1,3,down\n", ":2: no worker '3'"),
        ("at_s,worker,change\n1,disk,down\n", "or 0 to 2, vector-store and object-store"),
        ("at_s,worker,change\n1,w-00,gone\n", ":2: change must be down or up: got 'gone'"),
        ("at_s,worker,change\n1,w-00\n", ":2: expected 3 fields, got 2"),
    ],
)
def test_a_bad_file_is_refused_with_its_name_and_line(tmp_path: pathlib.Path, text: str, fault: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InvalidFailures) as reported:
        read_failures(path, IDS)
    assert str(path) in str(reported.value)
    assert fault in str(reported.value)


def test_a_file_that_is_not_there_is_reported(tmp_path: pathlib.Path) -> None:
    with pytest.raises(InvalidFailures, match=r"no file at .*none\.csv: give a CSV file with the columns"):
        read_failures(tmp_path / "none.csv", IDS)
    with pytest.raises(InvalidFailures, match="cannot be read as CSV"):
        read_failures(tmp_path, IDS)


def test_stores_are_read_too_and_what_nobody_asks_is_reported(tmp_path: pathlib.Path) -> None:
    rows = "1,object-store,down\n2,vector-store,down\n3,object-store,up\n4,vector-store,up\n5,w-00,down\n"
    outages = read_failures(written(tmp_path, "at_s,worker,change\n" + rows), IDS)
    assert outages[0] == down(1, "object-store")
    fault = "2 of the 5 changes are of the vector-store and change nothing: the catalog test has no profile of reuse"
    assert unheeded(outages, a_catalog()).startswith(fault)
    assert unheeded(outages, a_reuse_ladder()) == ""
    assert unheeded((down(1, "object-store"), up(2, "w-00")), a_catalog()) == ""
