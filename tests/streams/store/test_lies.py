"""One contract for stores that lie, on a server and on a disk: nothing wrong is read, and nothing is final."""

import pathlib
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from streams.settings import load
from streams.store import s3 as s3_module
from streams.store.open import open_store
from streams.store.port import ImageStore, StoreUnavailable, Unreadable
from tests.streams.store.lies import LIED_ABOUT, LIES, Liar, lying_disk, lying_server
from tests.streams.store.s3_server import set_up_credentials

PATIENT = 10  # tries of a call, after which the lie ends
T = TypeVar("T")
Lying = tuple[ImageStore, Liar]


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lying]:
    set_up_credentials(monkeypatch)
    with lying_server() as (url, liar):
        named = {"url": "s3://bucket", "s3_endpoint_url": url, "s3_region": "us-east-1"}
        monkeypatch.setattr("time.sleep", lambda _seconds: None)  # of botocore's second try
        yield open_store(load({"store": named})), liar


@pytest.fixture(params=["folder", "s3"])
def lying(request: pytest.FixtureRequest, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Lying:
    """A store that can lie, and its liar."""
    if request.param == "s3":
        found: Lying = request.getfixturevalue("s3")
        return found
    return open_store(load({"store": {"folder": str(tmp_path)}})), lying_disk(tmp_path, monkeypatch)


def insisted(call: Callable[[], T], liar: Liar) -> T:
    """What a call returns that is repeated while the store says that it is away, or the object gone."""
    for _ in range(PATIENT):
        try:
            return call()
        except (StoreUnavailable, Unreadable):
            pass
    liar.lie = ""
    return call()


@pytest.mark.parametrize("lie", LIES)
def test_what_was_put_under_a_lie_is_got_whole_by_those_who_ask_again(lying: Lying, lie: str) -> None:
    store, liar = lying
    liar.lie = lie
    uri = insisted(lambda: store.put("job-1", LIED_ABOUT), liar)
    assert list(liar.objects().values()) == [LIED_ABOUT], "what put has returned is there, whether it is read or not"
    assert insisted(lambda: store.get(uri), liar) == LIED_ABOUT


@pytest.mark.parametrize("lie", LIES)
def test_what_was_put_before_a_lie_is_got_whole_by_those_who_ask_again(lying: Lying, lie: str) -> None:
    store, liar = lying
    uri = store.put("job-1", LIED_ABOUT)
    liar.lie = lie
    liar.reads.clear()
    assert insisted(lambda: store.put("job-1", LIED_ABOUT), liar) == uri
    assert insisted(lambda: store.get(uri), liar) == LIED_ABOUT


@pytest.mark.parametrize("left", [b"", LIED_ABOUT[:9], LIED_ABOUT[::-1]])
def test_a_damaged_object_is_refused_and_written_again_by_the_next_who_has_its_bytes(lying: Lying, left: bytes) -> None:
    store, liar = lying
    uri = store.put("job-1", LIED_ABOUT)
    liar.damage(left)
    with pytest.raises(Unreadable, match="is damaged"):
        store.get(uri)
    assert store.put("job-1", LIED_ABOUT) == uri
    assert store.get(uri) == LIED_ABOUT


def test_a_put_that_keeps_half_of_the_bytes_never_returns(lying: Lying) -> None:
    store, liar = lying
    liar.lie = "half"
    for _ in range(PATIENT):
        with pytest.raises(StoreUnavailable):
            store.put("job-1", LIED_ABOUT)


def test_a_412_for_what_is_not_there_is_not_believed_and_one_for_what_is_there_costs_no_write(s3: Lying) -> None:
    store, liar = s3
    liar.lie = "has-it"
    for _ in range(PATIENT):
        with pytest.raises(StoreUnavailable):
            store.put("job-1", LIED_ABOUT)
    liar.lie = ""
    store.put("job-1", LIED_ABOUT)
    liar.lie = "has-it"
    store.put("job-1", LIED_ABOUT)


def test_what_was_written_and_is_not_readable_is_written_again_after_a_while_and_not_before(
    s3: Lying, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, liar = s3
    monkeypatch.setattr(liar, "is_late", lambda _name: True)
    writes = Writes(store)
    for _ in range(PATIENT):
        with pytest.raises(StoreUnavailable, match="cannot be read yet"):
            store.put("job-1", LIED_ABOUT)
    assert writes.conditions == [{"IfNoneMatch": "*"}] * PATIENT, "a server that has it takes one of them"
    monkeypatch.setattr(s3_module, "READABLE_S", 0.0)
    with pytest.raises(StoreUnavailable, match="is not there"):
        store.put("job-1", LIED_ABOUT)
    assert writes.conditions[-1] == {}


class Writes:
    """Notes under which condition a store writes."""

    def __init__(self, store: ImageStore) -> None:
        self.conditions = list[dict[str, str]]()
        write = store._write  # type: ignore[attr-defined]

        def noted(*args: object, **condition: str) -> None:
            self.conditions.append(condition)
            write(*args, **condition)

        store._write = noted  # type: ignore[attr-defined]
