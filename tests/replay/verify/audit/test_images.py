import hashlib

import pytest

from replay.verify.audit.figures import Figures, ImageFigures, as_json, verdict
from replay.verify.audit.images import check, verified
from schemas.errors import PochadeError
from streams.store.port import Stored, StoreUnavailable
from tests.memory_store import MemoryImageStore

FINE = Figures(accepted=1, outcomes={"COMPLETED": 1})


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_an_image_whose_bytes_its_result_does_not_name_is_broken() -> None:
    store = MemoryImageStore()
    good, other = store.put("a", b"good"), store.put("b", b"other")
    found = check(store, {good: {sha(b"good")}, other: {sha(b"promised")}}, ())
    assert (found.checked, len(found.broken)) == (2, 1)
    assert "its result says" in found.broken[0]
    assert str(verdict(FINE, found)).startswith("1 images are not what their results say (memory:")


def test_an_image_that_has_gone_is_broken() -> None:
    (reported_why,) = check(MemoryImageStore(), {"memory:gone": {"ab"}}, ()).broken
    assert "has gone" in reported_why


def test_one_uri_with_two_hashes_cannot_be_both() -> None:
    store = MemoryImageStore()
    uri = store.put("a", b"good")
    assert len(check(store, {uri: {sha(b"good"), sha(b"bad")}}, ()).broken) == 1


def test_orphans_are_reported_and_break_no_promise() -> None:
    found = check(MemoryImageStore(), {}, [Stored("memory:x", 0, 5), Stored("memory:y", 0, 6)])
    assert (found.orphans, found.orphan_bytes, verdict(FINE, found)) == (2, 11, None)


def test_a_store_that_is_away_is_no_broken_image() -> None:
    class Away(MemoryImageStore):
        def get(self, uri: str) -> bytes:
            raise StoreUnavailable(f"{uri}: the disk is away")

    with pytest.raises(StoreUnavailable):
        check(Away(), {"memory:x": {"ab"}}, ())


def test_the_bytes_of_an_image_come_back_when_they_are_right() -> None:
    store = MemoryImageStore()
    uri = store.put("a", b"good")
    assert verified(store, uri, sha(b"good")) == b"good"
    with pytest.raises(PochadeError, match="its result says nothing"):
        verified(store, uri, "")


def test_json_has_counts_under_short_names_and_ids_beside_them() -> None:
    broken = Figures(accepted=4, outcomes={}, lost=("x",), doubled={"y": 2}, late_commits=("z",), wasted_s=1.23456)
    found = as_json(broken, ImageFigures(checked=3, broken=("why",)))
    assert (found["lost"], found["duplicates"], found["late_commits"], found["wasted_s"]) == (1, 2, 1, 1.235)
    assert (found["lost_ids"], found["duplicate_ids"], found["late_commit_ids"]) == (["x"], ["y"], ["z"])
    assert found["broken_promises"] == verdict(broken, ImageFigures(checked=3, broken=("why",)))
    assert found["pictures"] == {
        "checked": 3, "broken": ["why"], "orphans": 0, "orphan_bytes": 0, "marks_checked": 0, "foreign": [],
    }  # fmt: skip
    reused = as_json(Figures(accepted=2, outcomes={}, reuse_sourceless=("x",), reuse_contradictory=("y",)), None)
    assert (reused["reuse_sourceless"], reused["reuse_sourceless_ids"]) == (1, ["x"])
    assert (reused["reuse_contradictory"], reused["reuse_contradictory_ids"]) == (1, ["y"])
