import pathlib

import pytest

from replay.load.identity import Ids, digest
from replay.traces import read
from replay.traces.transforms import sped
from replay.traces.writing import write
from schemas.errors import PochadeError
from tests.replay.load.runs import a_trace


def test_a_trace_that_was_kept_and_read_again_is_the_same_trace(tmp_path: pathlib.Path) -> None:
    trace = a_trace([0.0, 10.3, 1000 / 3])
    write(trace, tmp_path / "trace.jsonl.gz")
    assert digest(read(tmp_path / "trace.jsonl.gz")) == digest(trace)


def test_whatever_is_asked_otherwise_makes_another_trace() -> None:
    trace = a_trace([0.0, 10.0])
    others = [a_trace([0.0, 11.0]), a_trace([0.0, 10.0], ("one", "three")), a_trace([0.0, 10.0, 20.0]), sped(trace, 2)]
    assert len({digest(each) for each in [trace, *others]}) == 5


def test_an_id_tells_its_number_and_a_strangers_tells_none() -> None:
    ids = Ids("tuesday", "abc", 3)
    assert [ids.number(each) for each in ids.all] == [0, 1, 2]
    strangers = [
        "r-1",
        "tuesday-abc-0000003",
        "tuesday-abc-1",
        "tuesday-abc-",
        "tuesday-abd-0000001",
        "tuesday-abc-+000001",
    ]
    assert [ids.number(each) for each in strangers] == [None] * 6


@pytest.mark.parametrize("name", ["", "a b", "-a", "a/b", "x" * 65])
def test_a_name_that_cannot_stand_in_a_topic_is_refused(name: str) -> None:
    with pytest.raises(PochadeError, match="--name must be"):
        Ids(name, "abc", 1)
