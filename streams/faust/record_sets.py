"""Record sets that aiokafka can always read past: what it cannot decode is handed over as bytes.

aiokafka's fetcher raises at a header name that is not UTF-8, an unknown codec or a broken batch, and fetches the same
batch again. Here such names are escaped, and a batch that cannot be decoded becomes one record whose value is
`Undecoded`; reading continues behind it.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import Any

import cramjam
from aiokafka.consumer import fetcher
from aiokafka.consumer.fetcher import PartitionRecords
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch, _DefaultRecordBatchPy
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import ConsumerRecord, TopicPartition

from schemas.errors import PochadeError

HEAD = struct.Struct(">qi")  # of a batch: its base offset, and the length of what follows
MAGIC_AT, CURRENT_MAGIC = 16, 2
CODEC_AT, CODEC_MASK = 22, 7  # in a batch's attributes
PACKED_AT = 61  # behind a batch's head
MAX_UNPACKED = 64 * 2**20  # bytes that a batch may unpack to: a few can hold gigabytes, which would end the process
FIRST_ROOM, GROWTH = 2**16, 16  # bytes to unpack into at first; by how much more each time that it is not enough
CRC_TRIES = 3  # a wrong checksum may come from the wire: it is fetched again before it is given up

# into how many a byte can unpack; snappy's 21 make no batch too large
BEST_RATIO = {
    DefaultRecordBatch.CODEC_GZIP: 1032,
    DefaultRecordBatch.CODEC_LZ4: 255,
    DefaultRecordBatch.CODEC_ZSTD: 2**20,
}

_broken: dict[TopicPartition, tuple[int, int]] = {}  # the last position with a wrong checksum, and how often it was met


class Undecodable(PochadeError):
    """Bytes on a topic that no record can be made of."""


class Undecoded(bytes):
    """The value of a record that stands for what could not be decoded: the batch as it lay in the log."""

    error: Undecodable


class RecordSet:
    """aiokafka's `MemoryRecords`, which also returns the bytes of the batch that it handed over last."""

    def __init__(self, data: bytes) -> None:
        self._records = MemoryRecords(data)
        self._data = data
        self._at = 0
        self._end = 0

    def size_in_bytes(self) -> int:
        return int(self._records.size_in_bytes())

    def has_next(self) -> bool:
        return bool(self._records.has_next())

    def next_batch(self) -> Any:
        self._at = self._end
        _, length = HEAD.unpack_from(self._data, self._at)
        self._end += HEAD.size + length
        batch = self._records.next_batch()
        if self._end - self._at > PACKED_AT and (codec := self._data[self._at + CODEC_AT] & CODEC_MASK):
            _check_unpacked(codec, self._data[self._at + PACKED_AT : self._end])
        return batch

    def last(self) -> bytes:
        """The bytes of the batch that `next_batch` was asked for last."""
        return bytes(self._data[self._at : self._end])

    def leave(self) -> None:
        """Hand over no further record."""
        self._records = MemoryRecords(b"")


class ReadableRecords(PartitionRecords):  # type: ignore[misc]  # aiokafka has no types
    """The readable records of one partition's part of a fetch response."""

    _records: RecordSet
    next_fetch_offset: int

    def _unpack_records(self) -> Iterator[ConsumerRecord]:
        while True:
            try:
                yield from super()._unpack_records()
                return
            except (GeneratorExit, KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:  # codecs in Rust panic with an exception that is no Exception
                if _may_pass(self._tp, self.next_fetch_offset, error):
                    return  # the reader's position stays before it, so that it is fetched again
                yield from self._salvaged(self._records.last(), error)

    def _salvaged(self, batch: bytes, error: BaseException) -> Iterator[ConsumerRecord]:
        """Yield the records of a batch that can be read from the position on, and the batch where the reading ends."""
        if len(batch) <= MAGIC_AT:  # the set itself is broken: the beginning of the next batch is unknown
            self._records.leave()
            yield self._undecoded(batch, self.next_fetch_offset, error)
            return
        after = _next_offset(batch, self.next_fetch_offset)
        if _is_of_a_name(error):
            try:
                for record in _lenient(batch):
                    if record.offset >= self.next_fetch_offset:
                        made = self._consumer_record(self._tp, record)
                        self.next_fetch_offset = record.offset + 1
                        yield made
                self.next_fetch_offset = after
                return
            except Exception as second:
                error = second
        yield self._undecoded(batch, after - 1, error)

    def _undecoded(self, batch: bytes, last: int, error: BaseException) -> ConsumerRecord:
        """A record at the position that stands for all up to `last`."""
        first, self.next_fetch_offset = self.next_fetch_offset, last + 1
        value = Undecoded(batch)
        where = f"{self._tp.topic}/{self._tp.partition}@{first}" + (f" to {last}" if last > first else "")
        value.error = Undecodable(f"{where} cannot be decoded: {type(error).__name__}: {error}")
        size = len(batch)
        return ConsumerRecord(
            self._tp.topic, self._tp.partition, first, None, None, None, value, None, -1, size, ()
        )  # fmt: skip


def install() -> None:
    """Have every aiokafka consumer of this process read so: its fetcher offers no other way in."""
    fetcher.MemoryRecords = RecordSet
    fetcher.PartitionRecords = ReadableRecords


def _is_of_a_name(error: BaseException) -> bool:
    """Whether only a header's name stands in the way; aiokafka's parser in Python wraps that."""
    return isinstance(error, UnicodeDecodeError) or isinstance(error.__cause__, UnicodeDecodeError)


def _check_unpacked(codec: int, packed: bytes) -> None:
    """Raise Undecodable for what unpacks to more than a batch may. Most need not be tried, by their codec's best."""
    if codec not in BEST_RATIO or len(packed) * BEST_RATIO[codec] <= MAX_UNPACKED:
        return
    size = min(MAX_UNPACKED, max(FIRST_ROOM, GROWTH * len(packed)))
    while not _fits(codec, packed, size):
        if size == MAX_UNPACKED:
            raise Undecodable(f"{len(packed)} bytes unpack to more than {MAX_UNPACKED}, or to nothing")
        size = min(MAX_UNPACKED, GROWTH * size)


def _fits(codec: int, packed: bytes, size: int) -> bool:
    """Whether it unpacks to at most `size` bytes."""
    try:
        if codec == DefaultRecordBatch.CODEC_GZIP:
            unpacking = zlib.decompressobj(wbits=31)
            unpacking.decompress(packed, size)
            return unpacking.eof
        unpack = cramjam.zstd if codec == DefaultRecordBatch.CODEC_ZSTD else cramjam.lz4
        unpack.decompress_into(packed, bytearray(size))
    except (zlib.error, cramjam.DecompressionError):
        return False
    return True


def _may_pass(tp: TopicPartition, position: int, error: BaseException) -> bool:
    """Whether a batch that was broken may be whole when it is fetched again."""
    if not isinstance(error, CorruptRecordException) or _is_of_a_name(error):
        return False
    last, met = _broken.get(tp, (-1, 0))
    met = met + 1 if last == position else 1
    _broken[tp] = position, met
    return met < CRC_TRIES


def _next_offset(batch: bytes, position: int) -> int:
    """Return the offset at which the next batch begins, by the header of this one, whose numbers may be wrong."""
    if batch[MAGIC_AT] != CURRENT_MAGIC or len(batch) < _DefaultRecordBatchPy.HEADER_STRUCT.size:
        return position + 1
    return max(position + 1, int(_DefaultRecordBatchPy(batch).next_offset))


class _Escaping(bytearray):
    """A batch's bytes of which names are decoded whatever they are, as `\\xff\\xfe`."""

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        return _Escaping(found) if isinstance(at, slice) else found

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:  # noqa: ARG002  the base class names it
        return super().decode(encoding, "backslashreplace")


def _lenient(batch: bytes) -> Iterator[Any]:
    """The records of a batch, by aiokafka's parser in Python. Raises what it raises for a batch that is broken."""
    if batch[MAGIC_AT] != CURRENT_MAGIC:
        raise CorruptRecordException(f"record format {batch[MAGIC_AT]} cannot be read")
    parsed = _DefaultRecordBatchPy(batch)
    parsed._maybe_uncompress()
    parsed._buffer = _Escaping(parsed._buffer)
    return iter(parsed)
