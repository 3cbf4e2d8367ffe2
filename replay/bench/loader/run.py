"""How fast do weights come from S3 to the volume, and from the volume into memory, checked?

From S3: a file by parallel ranges to the volume, compared with its sha-256 and synced; baseline: one plain GET by
boto3 into a file on the same disk, not compared: its time without and with the file's sync. Once from a server that
limits the bytes a second of each connection, and once from one that does not. Both in turns, after one turn of each
that does not count. From the volume: a file into a buffer by direct I/O, hashed meanwhile; baseline: `dd
iflag=direct` of the same file. Ratios are of one turn, so that other work of the machine slows both.
"""

import contextlib
import hashlib
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from replay.bench.environment.figures import met, spread, spread_with_interval
from schemas.errors import PochadeError
from streams.processes.children import end_all
from streams.store.s3 import parsed, s3_client
from streams.weights.direct import read_file
from streams.weights.manifest import ComponentFile, Manifest
from streams.weights.pools import BufferPools
from streams.weights.remotes.open import open_remote
from streams.weights.volume import Volume

MB: Final = 1_000_000
NAME: Final = "weights.safetensors"
BLOCK: Final = 1 << 20  # of the plain GET
TARGETS: Final = {
    "throttled_ratio": (">=", 6.0), "unthrottled_ratio": (">=", 0.9), "unthrottled_synced_ratio": (">=", 0.9),
    "local_ratio": (">=", 0.7),
}  # fmt: skip
CREDENTIALS: Final = {
    "AWS_ACCESS_KEY_ID": "bench",
    "AWS_SECRET_ACCESS_KEY": "bench",
}  # of our server, which asks for none


def run(
    folder: pathlib.Path, *, megabytes: int, ranges: int, repeats: int, connection_mb_s: float,
    note: Callable[[str], object],
) -> dict[str, Any]:  # fmt: skip
    """Measure in a folder of the disk to be measured, which is left as it was. Raises PochadeError, OSError.

    `megabytes`: size of the file in MiB; `connection_mb_s`: what a throttled connection gives, in MB/s.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-loader-", dir=folder) as work, _signed():
        place = pathlib.Path(work)
        file = _write_random_file(place / "remote" / "weights" / NAME, megabytes << 20)
        measured: dict[str, Any] = {"file_mb": round(file.bytes / MB, 1), "ranges": ranges}
        figures: dict[str, float] = {}
        for name, bytes_per_s in (("throttled", connection_mb_s * MB), ("unthrottled", 0.0)):
            note(f"{name}: {repeats} turns")
            turns = _remote_turns(place, file, ranges, repeats, bytes_per_s)
            measured[name] = turns
            figures[f"{name}_ratio"] = turns["ratio"]["median"]
        figures["unthrottled_synced_ratio"] = measured["unthrottled"]["synced"]["ratio"]["median"]
        note(f"local: {repeats} turns")
        measured["local"] = _local_turns(place, file, repeats)
        figures["local_ratio"] = measured["local"]["ratio"]["median"]
    return {**measured, "targets": met(figures, TARGETS)}


def _write_random_file(path: pathlib.Path, size: int) -> ComponentFile:
    """Write a file of random bytes, to the disk and the server's page cache."""
    path.parent.mkdir(parents=True)
    found = hashlib.sha256()
    with path.open("wb") as file:
        for begin in range(0, size, BLOCK):
            data = os.urandom(min(BLOCK, size - begin))
            found.update(data)
            file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return ComponentFile(path=NAME, bytes=size, sha256=found.hexdigest())


@contextlib.contextmanager
def _signed() -> Iterator[None]:
    """Credentials for a server that does not look at them, for the time of the bench."""
    before = {name: os.environ.get(name) for name in CREDENTIALS}
    os.environ.update(CREDENTIALS)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _server(folder: pathlib.Path, bytes_per_s: float) -> Iterator[str]:
    command = [sys.executable, "-m", "replay.bench.loader.server", str(folder), str(bytes_per_s)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        port = child.stdout.readline().strip()
        if not port:
            raise PochadeError("the server of the bench did not start: see the error above")
        yield f"http://127.0.0.1:{port}"
    finally:
        end_all([child])


def _remote_turns(
    place: pathlib.Path, file: ComponentFile, ranges: int, repeats: int, bytes_per_s: float
) -> dict[str, Any]:
    listed = Manifest(component="base:bench", files=(file,))
    with _server(place / "remote", bytes_per_s) as endpoint:
        remote = open_remote("s3://weights", endpoint, "us-east-1", ranges)
        volume = Volume(place / "volume", 2 * file.bytes, ranges=ranges)
        client, (bucket, _) = s3_client(endpoint, "us-east-1"), parsed("s3://weights")

        def by_ranges() -> float:
            began_s = time.perf_counter()
            transfer = volume.fetch(remote, listed)
            took_s = time.perf_counter() - began_s
            assert transfer.fetched_bytes == file.bytes, f"{transfer} of {file.bytes} bytes"
            volume.remove(listed.digest)
            return took_s

        synced: list[float] = []

        def by_one_get() -> float:
            target = place / "plain"
            began_s = time.perf_counter()
            body = client.get_object(Bucket=bucket, Key=NAME)["Body"]
            with target.open("wb") as out:
                shutil.copyfileobj(body, out, BLOCK)
            took_s = time.perf_counter() - began_s
            with target.open("rb") as written:
                os.fsync(written.fileno())
            synced.append(time.perf_counter() - began_s)
            assert target.stat().st_size == file.bytes, f"{target.stat().st_size} of {file.bytes} bytes came"
            target.unlink()
            return took_s

        ours, plain = _by_turns(by_ranges, by_one_get, repeats)
    return {
        **_compared(file.bytes, ours, plain, "ranges_mb_per_s", "plain_get_mb_per_s"),
        "synced": _compared(file.bytes, ours, synced[1:], "ranges_mb_per_s", "plain_get_mb_per_s"),
    }


def _local_turns(place: pathlib.Path, file: ComponentFile, repeats: int) -> dict[str, Any]:
    path, reads = place / "remote" / "weights" / NAME, set[tuple[int, bool]]()
    pools = BufferPools([file.bytes], file.bytes)

    def direct() -> float:
        began_s = time.perf_counter()
        reading = read_file(path, file.bytes, file.sha256, pools)
        took_s = time.perf_counter() - began_s
        reads.add((reading.reads, reading.is_direct))
        reading.lease.release()
        return took_s

    def by_dd() -> float:
        command = ["dd", f"if={path}", "of=/dev/null", "bs=2M", "iflag=direct"]
        found = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}, check=False)
        if found.returncode:
            raise PochadeError(f"dd cannot read {path} by direct I/O: {found.stderr.strip()}; choose another --folder")
        return float(found.stderr.rpartition(" copied, ")[2].split(" ")[0])  # by its own clock, without its start

    ours, dd = _by_turns(direct, by_dd, repeats)
    ((count, is_direct),) = reads
    hashing_s = min(_hashing_s(path) for _ in range(3))
    return {
        **_compared(file.bytes, ours, dd, "direct_mb_per_s", "dd_mb_per_s"),
        "reads": count,
        "is_direct": is_direct,
        "hash_alone_mb_per_s": round(file.bytes / hashing_s / MB, 1),
        "hash_then_read_ratio": round(statistics.median(dd) / (statistics.median(dd) + hashing_s), 3),  # not overlapped
    }


def _hashing_s(path: pathlib.Path) -> float:
    data = path.read_bytes()
    began_s = time.perf_counter()
    hashlib.sha256(data).digest()
    return time.perf_counter() - began_s


def _by_turns(ours: Callable[[], float], base: Callable[[], float], repeats: int) -> tuple[list[float], list[float]]:
    """Return the seconds of both sides; they begin by turns, and the first turn does not count."""
    took: tuple[list[float], list[float]] = ([], [])
    for turn in range(repeats + 1):
        for side in (0, 1) if turn % 2 else (1, 0):
            seconds = (ours, base)[side]()
            if turn:
                took[side].append(seconds)
    return took


def _compared(size: int, ours: Sequence[float], base: Sequence[float], name: str, base_name: str) -> dict[str, Any]:
    ratios = [b / a for a, b in zip(ours, base, strict=True)]
    return {
        name: spread([size / seconds / MB for seconds in ours]),
        base_name: spread([size / seconds / MB for seconds in base]),
        "ratio": spread_with_interval(ratios),
    }
