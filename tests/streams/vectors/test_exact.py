"""Exact search over a file that processes share: who is killed, stopped or behind costs the others nothing."""

import fcntl
import pathlib
from dataclasses import replace

import numpy as np
import pytest

from streams.vectors import exact
from streams.vectors.exact import ExactVectorStore
from streams.vectors.port import Selection, VectorsUnavailable, WrongCollection
from tests.streams.vectors.rows import CALL_S, DIMENSION, EAST, NOW_MS, WANTED, a_row, ids


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "vectors" / "rows.jsonl"


def ensured(file: pathlib.Path | None, *, max_rows: int = 100) -> ExactVectorStore:
    store = ExactVectorStore(file, max_rows=max_rows)
    store.ensure(DIMENSION, CALL_S)
    return store


def test_without_a_file_rows_live_as_long_as_the_object() -> None:
    store = ensured(None)
    store.upsert([a_row()], CALL_S)
    assert ids(store) == ["row-1"]
    store.close()
    assert ids(store) == ["row-1"]


def test_it_finds_what_comparing_each_vector_finds(file: pathlib.Path) -> None:
    random = np.random.default_rng(7)
    vectors = random.normal(size=(300, DIMENSION)).astype(np.float32)
    tenants = [random.choice(["alice", "bob"], p=[0.8, 0.2]) for _ in vectors]
    store = ensured(file, max_rows=300)
    store.upsert(
        [a_row(id=f"{n}", vector=tuple(map(float, vectors[n])), tenant=str(tenants[n])) for n in range(300)], CALL_S
    )
    for asked in random.normal(size=(20, DIMENSION)):
        for tenant in ("alice", "bob"):
            cosines = vectors @ asked / np.linalg.norm(vectors, axis=1) / np.linalg.norm(asked)
            expected = [str(n) for n in np.argsort(-cosines) if tenants[n] == tenant][:5]
            found = store.nearest(tuple(map(float, asked)), replace(WANTED, tenant=tenant), 5, CALL_S)
            assert [match.row.id for match in found.matches] == expected


def test_another_process_sees_writes_and_deletions_at_its_next_question(file: pathlib.Path) -> None:
    writer, reader = ensured(file), ExactVectorStore(file)
    writer.upsert([a_row(id="one"), a_row(id="two")], CALL_S)
    assert ids(reader) == ["one", "two"]
    writer.delete(Selection(ids=("one",)), CALL_S)
    assert ids(reader) == ["two"]


def test_rows_beyond_the_limit_are_the_oldest_and_go_for_every_process(file: pathlib.Path) -> None:
    writer, reader = ensured(file, max_rows=2), ExactVectorStore(file, max_rows=100)
    for age in (3, 1, 2):
        writer.upsert([a_row(id=f"age-{age}", created_ms=NOW_MS - age)], CALL_S)
    assert sorted(ids(reader)) == ["age-1", "age-2"]


def test_a_file_of_dead_lines_is_replaced_and_readers_notice(
    file: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact, "DEAD_LINES", 5)
    writer, reader = ensured(file), ExactVectorStore(file)
    for number in range(50):
        writer.upsert([a_row(created_ms=NOW_MS - 50 + number)], CALL_S)
        if number % 7 == 0:
            assert ids(reader) == ["row-1"]
    assert len(file.read_bytes().splitlines()) < 10
    assert reader.nearest(EAST, WANTED, 1, CALL_S).matches[0].row.created_ms == NOW_MS - 1


def test_a_line_that_a_killed_process_left_half_written_is_cut_off(file: pathlib.Path) -> None:
    ensured(file).upsert([a_row(id="whole")], CALL_S)
    with open(file, "ab") as broken:
        broken.write(b'{"row": "{\\"id\\": \\"half')
    reader, writer = ExactVectorStore(file), ExactVectorStore(file)
    assert ids(reader) == ["whole"]
    writer.upsert([a_row(id="next")], CALL_S)
    assert sorted(ids(reader)) == sorted(ids(writer)) == ["next", "whole"]


def test_lines_that_are_no_rows_are_passed_over(file: pathlib.Path) -> None:
    ensured(file).upsert([a_row(id="good")], CALL_S)
    with open(file, "ab") as damaged:
        damaged.write(b'\x00\xff\n{"row": "x", "vector": "?"}\n[1]\n{"deleted": 7}\n{"row": "{}", "vector": "AAAA"}\n')
    assert ids(ExactVectorStore(file)) == ["good"]


def test_a_deleted_file_is_an_empty_store(file: pathlib.Path) -> None:
    store = ensured(file)
    store.upsert([a_row()], CALL_S)
    file.unlink()
    with pytest.raises(WrongCollection, match="ensure it"):
        ids(store)
    store.ensure(DIMENSION, CALL_S)
    assert ids(store) == []


def test_a_writer_that_is_stopped_delays_writers_until_their_deadline_and_no_search(file: pathlib.Path) -> None:
    store = ensured(file)
    store.upsert([a_row(id="before")], CALL_S)
    with open(file.with_suffix(".lock")) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(VectorsUnavailable, match="another process"):
            ExactVectorStore(file).upsert([a_row(id="late")], 0.1)
        assert ids(store) == ["before"]
    store.upsert([a_row(id="after")], CALL_S)
    assert sorted(ids(store)) == ["after", "before"]


def test_more_news_than_a_deadline_allows_is_read_by_later_calls(file: pathlib.Path) -> None:
    writer, reader = ensured(file, max_rows=1000), ExactVectorStore(file, max_rows=1000)
    writer.upsert([a_row(id=f"{number}") for number in range(1000)], CALL_S)
    refusals = 0
    while True:
        try:
            found = reader.nearest(EAST, WANTED, 1, 0.0)
            break
        except VectorsUnavailable:
            refusals += 1
    assert 0 < refusals <= 1000
    assert len(found.matches) == 1


def test_the_folder_of_the_rows_is_its_owners_alone(file: pathlib.Path) -> None:
    ensured(file)
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_cannot_be_used_is_unavailable(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(VectorsUnavailable, match="cannot use"):
        ensured(tmp_path / "file" / "rows.jsonl")
