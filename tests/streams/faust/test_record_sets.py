"""What aiokafka cannot decode is handed over as bytes, and reading goes on behind it."""

from collections.abc import Iterator

import pytest
from aiokafka.structs import ConsumerRecord, TopicPartition

from streams.faust import record_sets
from streams.faust.record_sets import CRC_TRIES, ReadableRecords, RecordSet, Undecoded
from tests.raw_batches import GZIP, LZ4, SNAPPY, ZSTD, a_batch

TP = TopicPartition("pochade.prompts.v1", 0)
BAD_NAME = [(b"\xff\xfe", b"v"), (b"good", b"w")]


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    record_sets._broken.clear()


def read(data: bytes, position: int = 0) -> tuple[list[ConsumerRecord], int]:
    """The records from a position on, and where the reader would go on."""
    records = ReadableRecords(TP, RecordSet(data), None, position, None, None, True, 1)
    return list(records), records.next_fetch_offset


def plain(value: bytes) -> tuple[bytes, bytes, list[tuple[bytes, bytes | None]]]:
    return b"k", value, []


@pytest.mark.parametrize("codec", [0, GZIP, SNAPPY, LZ4, ZSTD])
def test_header_names_that_are_no_text_are_escaped_and_the_record_is_whole(codec: int) -> None:
    long = b"value " * 100  # so that compressing it pays
    read_, after = read(a_batch(plain(b"a"), (b"key", long, BAD_NAME), plain(b"b"), codec=codec, base_offset=7), 7)
    assert [record.offset for record in read_] == [7, 8, 9]
    assert [record.value for record in read_] == [b"a", long, b"b"]
    assert (read_[1].key, read_[1].headers) == (b"key", (("\\xff\\xfe", b"v"), ("good", b"w")))
    assert after == 10


def test_a_batch_that_is_read_from_its_middle_gives_nothing_twice() -> None:
    read_, after = read(a_batch(plain(b"a"), (None, b"b", BAD_NAME), plain(b"c")), 1)
    assert [record.value for record in read_] == [b"b", b"c"]
    assert after == 3


def test_headers_without_a_value_and_names_that_come_twice_are_kept() -> None:
    (record,), _ = read(a_batch((None, b"a", [(b"n", None), (b"n", b"2"), (b"\xff", None)])))
    assert record.headers == (("n", None), ("n", b"2"), ("\\xff", None))


def broken(batch: bytes, at: int = -1) -> bytes:
    spoilt = bytearray(batch)
    spoilt[at] ^= 0xFF
    return bytes(spoilt)


def test_a_wrong_checksum_is_fetched_again_before_the_batch_is_handed_over_as_it_lay() -> None:
    good, bad = a_batch(plain(b"a")), broken(a_batch(plain(b"b"), plain(b"c"), base_offset=1))
    data = good + bad + a_batch(plain(b"d"), base_offset=3)
    first, position = read(data)
    assert ([record.value for record in first], position) == ([b"a"], 1)
    for _ in range(CRC_TRIES - 2):
        assert read(data, position) == ([], position)
    (stands_for, behind), after = read(data, position)
    assert isinstance(stands_for.value, Undecoded)
    assert (stands_for.offset, stands_for.value) == (1, bad)
    assert "pochade.prompts.v1/0@1 to 2 cannot be decoded: CorruptRecordException" in str(stands_for.value.error)
    assert (behind.value, after) == (b"d", 4)


def test_a_batch_in_an_unknown_codec_is_handed_over_at_once() -> None:
    from aiokafka.record.util import calc_crc32c

    odd = bytearray(a_batch(plain(b"a"), plain(b"b")))
    odd[22] |= 7  # attributes: a codec that there is not
    odd[17:21] = calc_crc32c(bytes(odd[21:])).to_bytes(4, "big")
    (stands_for, behind), after = read(bytes(odd) + a_batch(plain(b"c"), base_offset=2))
    assert stands_for.value == bytes(odd)
    assert "codec" in str(stands_for.value.error)
    assert (behind.value, after) == (b"c", 3)


def test_a_codec_that_panics_is_an_error_of_its_batch_only(monkeypatch: pytest.MonkeyPatch) -> None:
    class Panic(BaseException):
        """As Rust's reach Python."""

    class Panics:
        """A batch of the parser in C."""

        producer_id, is_control_batch, next_offset = None, False, 1

        def validate_crc(self) -> bool:
            return True

        def __iter__(self) -> "Panics":
            raise Panic("index out of bounds")

    monkeypatch.setattr(RecordSet, "next_batch", lambda self: Panics() if real(self) else None)
    (stands_for,), after = read(a_batch(plain(b"a")))
    assert (isinstance(stands_for.value, Undecoded), after) == (True, 1)


real = RecordSet.next_batch


def test_a_set_whose_lengths_make_no_sense_costs_its_position_only() -> None:
    data = (5).to_bytes(8, "big") + (2).to_bytes(4, "big") + b"xx"
    for _ in range(CRC_TRIES - 1):
        assert read(data, 5) == ([], 5)
    (stands_for,), after = read(data, 5)
    assert isinstance(stands_for.value, Undecoded)
    assert after == 6


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_a_batch_that_unpacks_to_more_than_memory_holds_is_not_unpacked(
    codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_sets, "MAX_UNPACKED", 100_000)
    (fits,), _ = read(a_batch(plain(b"x" * 99_000), codec=codec))
    assert len(fits.value) == 99_000
    bomb = a_batch(plain(bytes(1_000_000)), codec=codec)
    (stands_for, behind), after = read(bomb + a_batch(plain(b"next"), base_offset=1))
    assert stands_for.value == bomb
    assert "unpack to more than" in str(stands_for.value.error)
    assert (behind.value, after) == (b"next", 2)


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_batches_that_are_packed_well_are_read_as_others(codec: int) -> None:
    many = [plain(b"x" * 1000)] * 500
    read_, after = read(a_batch(*many, codec=codec))
    assert (len(read_), after) == (500, 500)
