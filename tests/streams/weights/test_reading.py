"""Weights come from the volume into pooled memory: whole, compared, by few reads, and as tensors without a copy."""

import errno
import hashlib
import os
import pathlib
import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load, save

from streams.weights import direct
from streams.weights.direct import BLOCK, CannotRead, read_file
from streams.weights.errors import DamagedWeights
from streams.weights.loader import WeightsLoader
from streams.weights.memory import PAGE, CannotPin, PinnedMemory, address_of
from streams.weights.pools import BufferPools
from streams.weights.publish import publish
from streams.weights.remotes.folder import FolderRemote
from streams.weights.tensors import NotSafetensors, as_torch, parse
from streams.weights.volume import Volume
from tests.streams.weights.components import MIB, Failing, made

pytestmark = pytest.mark.torch


def written(folder: pathlib.Path, size: int) -> tuple[pathlib.Path, bytes, str]:
    data = random.Random(size).randbytes(size)
    path = folder / "weights"
    path.write_bytes(data)
    return path, data, hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("size", [0, 1, PAGE, BLOCK - 1, BLOCK, 2 * BLOCK + 12_345])
def test_a_file_is_read_whole_in_blocks_of_2_mb(tmp_path: pathlib.Path, size: int) -> None:
    path, data, digest = written(tmp_path, size)
    reading = read_file(path, size, digest, BufferPools([], 0))
    assert bytes(reading.lease.view) == data
    assert reading.reads == -(-size // (2 * MIB)), "a sixteenth of the calls of blocks of 128 KB"


def test_a_file_system_that_refuses_direct_io_is_read_as_usual(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = os.open

    def refusing(path: object, flags: int, *rest: object) -> int:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return plain(path, flags, *rest)  # type: ignore[arg-type]

    path, data, digest = written(tmp_path, 3 * MIB + 1)
    assert read_file(path, len(data), digest, BufferPools([], 0)).is_direct, "the disk of the tests takes it"
    monkeypatch.setattr(direct.os, "open", refusing)
    reading = read_file(path, len(data), digest, BufferPools([], 0))
    assert not reading.is_direct
    assert bytes(reading.lease.view) == data


def test_altered_and_cut_files_are_refused_and_their_buffers_come_back(tmp_path: pathlib.Path) -> None:
    path, data, digest = written(tmp_path, 3 * MIB)
    pools = BufferPools([4 * MIB], 4 * MIB)
    path.write_bytes(b"x" + data[1:])
    with pytest.raises(DamagedWeights, match="it was altered"):
        read_file(path, len(data), digest, pools)
    path.write_bytes(data[:-1])
    with pytest.raises(DamagedWeights, match="it was cut or altered"):
        read_file(path, len(data), digest, pools)
    path.unlink()
    with pytest.raises(CannotRead, match="No such file"):
        read_file(path, len(data), digest, pools)
    assert pools.counts().lent_bytes == 0


def test_a_buffer_comes_from_the_smallest_pool_that_holds_it() -> None:
    pools = BufferPools([16 * MIB, MIB, 4 * MIB], 64 * MIB)
    assert pools.lease(5 * MIB).pool == 16 * MIB
    assert pools.lease(1).pool == MIB
    too_large = pools.lease(20 * MIB)
    assert too_large.pool is None
    assert len(too_large.view) == 20 * MIB
    assert pools.counts().too_large == 1


def test_buffers_are_used_again_within_the_budget_and_counted_beyond() -> None:
    pools = BufferPools([MIB], 2 * MIB)
    one, two = pools.lease(MIB), pools.lease(MIB)
    assert pools.lease(MIB).pool is None
    where = address_of_view(one.view)
    one.release()
    assert address_of_view(pools.lease(7).view) == where
    two.release()
    two.release()
    counts = pools.counts()
    assert (counts.from_pool, counts.exhausted, counts.pool_bytes) == (3, 1, 2 * MIB)


def address_of_view(view: memoryview) -> int:
    return int(np.frombuffer(view, np.uint8).ctypes.data)


def test_buffers_of_a_pool_that_nobody_uses_make_room_for_another_pool() -> None:
    pools = BufferPools([MIB, 4 * MIB], 4 * MIB)
    for lease in [pools.lease(MIB) for _ in range(4)]:
        lease.release()
    assert pools.lease(4 * MIB).pool == 4 * MIB
    assert pools.counts().pool_bytes == 4 * MIB


def test_pools_follow_the_sizes_of_files_that_are_listed_later() -> None:
    pools = BufferPools([], 8 * MIB)
    pools.lease(MIB).release()
    assert pools.counts().from_pool == 0, "nothing is known of any file yet"
    pools.expect([MIB, 4 * MIB])
    small, large = pools.lease(MIB), pools.lease(3 * MIB)
    assert pools.counts().from_pool == 2
    assert pools.counts().pool_bytes == 5 * MIB
    pools.expect([8 * MIB * each for each in range(1, 6)])  # five sizes at most: some of those before share a pool
    assert len(pools.sizes) == 5
    small.release()
    large.release()
    with pools.lease(8 * MIB) as lease:
        assert lease.pool == 8 * MIB
        assert pools.counts().pool_bytes == 8 * MIB, "buffers of sizes before make room"
    pools.close()
    assert pools.counts().pool_bytes == 0


def test_a_buffer_that_a_tensor_points_into_is_not_given_back() -> None:
    lease = BufferPools([MIB], MIB).lease(MIB)
    data = save({"w": torch.arange(6.0)})
    lease.view[: len(data)] = data
    tensors = as_torch(lease.view[: len(data)], "here")
    with pytest.raises(BufferError):
        lease.release()
    del tensors
    lease.release()


class Driver:
    """What registers memory with a device, as CUDA's does."""

    def __init__(self, code: int = 0) -> None:
        self.code, self.registered = code, dict[int, int]()

    def register(self, address: int, size: int) -> int:
        if not self.code:
            self.registered[address] = size
        return self.code

    def unregister(self, address: int) -> int:
        del self.registered[address]
        return 0


def test_pinned_pools_register_their_memory_once_and_take_it_off_at_the_end() -> None:
    driver = Driver()
    pools = BufferPools([MIB], 4 * MIB, PinnedMemory(driver.register, driver.unregister))
    for _ in range(3):
        with pools.lease(MIB) as lease:
            assert driver.registered == {address_of(lease.memory): MIB}
    pools.close()
    assert driver.registered == {}


def test_memory_that_the_driver_does_not_pin_is_told() -> None:
    driver = Driver(code=2)
    pools = BufferPools([MIB], 4 * MIB, PinnedMemory(driver.register, driver.unregister))
    with pytest.raises(CannotPin, match="error 2 of the driver; lower the pools' bytes"):
        pools.lease(1)


KINDS = [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.float8_e4m3fn]


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(
        st.text("abc.", max_size=5), st.tuples(st.sampled_from(KINDS), st.lists(st.integers(0, 4), max_size=3))
    )
)
def test_tensors_are_those_that_the_library_reads(shapes: dict[str, tuple[torch.dtype, list[int]]]) -> None:
    whole = {name: torch.randn(shape).mul(100).to(kind) for name, (kind, shape) in shapes.items()}
    data = bytearray(save(whole))
    found, expected = as_torch(memoryview(data), "here"), load(bytes(data))
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype
        assert found[name].shape == tensor.shape
        assert found[name].view(torch.uint8).equal(tensor.view(torch.uint8)) if tensor.dim() else True


def test_tensors_point_into_the_buffer() -> None:
    data = bytearray(save({"a": torch.zeros(1000), "b": torch.zeros(3, 5, dtype=torch.bfloat16)}))
    start = address_of_view(memoryview(data))
    for tensor in as_torch(memoryview(data), "here").values():
        assert start <= tensor.data_ptr() < start + len(data)


def header(text: str, values: int = 0) -> bytes:
    return len(text).to_bytes(8, "little") + text.encode() + bytes(values)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\xff" * 8, header("{"), header("[]"), header('{"a": 1}'),
        header('{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}', 3),
        header('{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}', 5),
        header('{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}', 4),
        header('{"a": {"dtype": "X32", "shape": [1], "data_offsets": [0, 4]}}', 4),
        header('{"a": {"dtype": "F32", "shape": [-1], "data_offsets": [4, 0]}}', 4),
        header('{"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}, '
               '"b": {"dtype": "U8", "shape": [2], "data_offsets": [1, 3]}}', 3),
    ],
)  # fmt: skip
def test_bytes_that_are_no_safetensors_are_refused(data: bytes) -> None:
    with pytest.raises(NotSafetensors, match=r"the\.file"):
        parse(memoryview(data), "the.file")


def test_a_list_that_does_not_come_at_once_is_asked_for_again(tmp_path: pathlib.Path) -> None:
    remote, listed = made(tmp_path)
    failing = Failing(remote)
    failing.stats_to_fail = 1
    volume = Volume(tmp_path / "volume", 100 * MIB, wait=lambda _: None)
    _, transfer = WeightsLoader(volume, BufferPools([], 0)).to_volume(failing, listed.digest)
    assert transfer.retries == 1
    assert volume.path(listed.digest)


def test_a_component_that_was_altered_on_the_volume_is_fetched_again(tmp_path: pathlib.Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.safetensors").write_bytes(save({"w": torch.arange(1000.0)}))
    (source / "config.json").write_text("{}")
    remote = FolderRemote(tmp_path / "remote")
    listed = publish("base:test", source, remote)
    volume, pools = Volume(tmp_path / "volume", 100 * MIB), BufferPools([MIB], 4 * MIB)
    loader = WeightsLoader(volume, pools)
    for altered in (False, True):
        if altered:
            with (tmp_path / "volume" / "ready" / listed.digest / "a.safetensors").open("r+b") as file:
                file.seek(-1, 2)
                file.write(b"x")
        with loader.to_host(remote, listed.digest) as held:
            assert held.files.keys() == {"a.safetensors"}
            assert as_torch(held.buffer("a.safetensors"), "here")["w"].equal(torch.arange(1000.0))
    assert pools.counts().lent_bytes == 0
