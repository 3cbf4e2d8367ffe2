"""Components come to a volume whole, once, within its budget, and never with wrong bytes."""

import errno
import itertools
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from schemas.errors import PochadeError
from streams.store.port import StoreUnavailable
from streams.weights import draft as drafts
from streams.weights.errors import ComponentInUse, DamagedWeights, VolumeFull, WeightsGone
from streams.weights.fetch import MAX_TRIES
from streams.weights.manifest import Manifest
from streams.weights.remotes.folder import FolderRemote
from streams.weights.remotes.remote import read_manifest
from streams.weights.volume import Volume
from tests.paths import ROOT
from tests.patience import PATIENCE_S
from tests.streams.weights.components import FILES, MIB, Failing, contents, made

BUDGET = 100 * MIB


def volume_in(folder: pathlib.Path, budget_bytes: int = BUDGET, **options: float) -> Volume:
    return Volume(folder / "volume", budget_bytes, ranges=3, wait=lambda _: None, **options)  # type: ignore[arg-type]


def interrupted(folder: pathlib.Path) -> tuple[FolderRemote, Manifest, Volume]:
    """A volume in which a fetch was broken off after four reads, with the remote and the list of what was fetched."""
    remote, listed = made(folder)
    failing = Failing(remote)
    failing.fails = lambda number: number >= 4
    volume = volume_in(folder)
    with pytest.raises(StoreUnavailable):
        volume.fetch(failing, listed)
    return remote, listed, volume


def test_a_component_comes_whole_with_its_folders_and_its_list(tmp_path: pathlib.Path) -> None:
    remote, listed = made(tmp_path)
    volume = volume_in(tmp_path)
    transfer = volume.fetch(remote, read_manifest(remote, listed.digest))
    folder = volume.path(listed.digest)
    assert folder is not None
    assert contents(folder) == contents(tmp_path / "remote-1")
    assert volume.manifest(listed.digest) == listed
    assert (transfer.fetched_bytes, transfer.kept_bytes, transfer.retries) == (sum(FILES.values()), 0, 0)
    assert volume.ready().keys() == {listed.digest}
    assert volume.partial() == {}


def test_what_is_there_is_not_fetched_again(tmp_path: pathlib.Path) -> None:
    remote, listed = made(tmp_path)
    volume_in(tmp_path).fetch(remote, listed)
    failing = Failing(remote)
    assert volume_in(tmp_path).fetch(failing, listed).fetched_bytes == 0
    assert failing.reads == []


def test_an_interrupted_fetch_goes_on_where_it_was(tmp_path: pathlib.Path) -> None:
    remote, listed, _ = interrupted(tmp_path)
    assert volume_in(tmp_path).path(listed.digest) is None
    transfer = volume_in(tmp_path).fetch(remote, listed)
    assert transfer.kept_bytes >= 2 * MIB
    assert transfer.fetched_bytes < listed.bytes
    folder = volume_in(tmp_path).path(listed.digest)
    assert folder
    assert contents(folder) == contents(tmp_path / "remote-1")


def test_a_kept_part_whose_bytes_changed_is_fetched_again(tmp_path: pathlib.Path) -> None:
    remote, listed, volume = interrupted(tmp_path)
    found = [path for path in volume.folder.rglob("drafts/*.parts") if len(path.read_text().splitlines()) > 1]
    index = int(found[0].read_text().splitlines()[1].split(" ")[0])
    with found[0].with_suffix("").open("r+b") as file:
        file.seek(index * MIB + 7)
        file.write(b"power cut")
    volume.fetch(remote, listed)
    folder = volume.path(listed.digest)
    assert folder
    assert contents(folder) == contents(tmp_path / "remote-1")


def test_a_journal_that_lies_costs_a_second_fetch_and_serves_nothing_wrong(tmp_path: pathlib.Path) -> None:
    import zlib

    remote, listed, volume = interrupted(tmp_path)
    (journal,) = (path for path in volume.folder.rglob("drafts/*.parts") if len(path.read_text().splitlines()) > 1)
    with journal.with_suffix("").open("r+b") as file:
        file.write(bytes(MIB))
    first, *rest = journal.read_text().splitlines()
    others = [line for line in rest if not line.startswith("0 ")]
    journal.write_text("\n".join([first, f"0 {zlib.crc32(bytes(MIB))}", *others]) + "\n")
    volume.fetch(remote, listed)
    folder = volume.path(listed.digest)
    assert folder
    assert contents(folder) == contents(tmp_path / "remote-1")


@pytest.mark.parametrize("path", ["unet/model.safetensors", "config.json"])
def test_an_altered_file_is_refused_and_nothing_of_it_is_kept(tmp_path: pathlib.Path, path: str) -> None:
    remote, listed = made(tmp_path)
    with (tmp_path / "remote-1" / path).open("r+b") as file:
        file.seek(5)
        file.write(b"x")
    failing = Failing(remote)
    volume = volume_in(tmp_path)
    with pytest.raises(DamagedWeights, match=r"has sha-256 .* was altered; publish the component again"):
        volume.fetch(failing, listed)
    assert volume.path(listed.digest) is None
    assert not list(volume.folder.rglob(f"files/{path}"))
    offsets = [offset for name, offset in failing.reads if name == path]
    assert all(offsets.count(offset) == 2 for offset in offsets), "asked twice, in case a bit turned on the way"


def test_a_truncated_file_is_refused_before_it_is_read(tmp_path: pathlib.Path) -> None:
    remote, listed = made(tmp_path)
    os.truncate(tmp_path / "remote-1" / "unet/model.safetensors", 4 * MIB)
    with pytest.raises(DamagedWeights, match=f"has {4 * MIB} bytes, its component's list says {5 * MIB + 123}"):
        volume_in(tmp_path).fetch(remote, listed)


def test_another_list_than_that_of_the_digest_is_refused(tmp_path: pathlib.Path) -> None:
    remote, _ = made(tmp_path)
    with pytest.raises(DamagedWeights, match="wanted is 0000"):
        read_manifest(remote, "0" * 64)


def test_broken_connections_are_retried_from_the_byte_that_they_reached(tmp_path: pathlib.Path) -> None:
    remote, listed = made(tmp_path)
    failing = Failing(remote)
    failing.most_bytes = 300_000
    failing.fails = lambda number: number % 5 == 3
    failing.stats_to_fail = 2
    transfer = volume_in(tmp_path).fetch(failing, listed)
    assert transfer.retries >= 15
    assert transfer.fetched_bytes == listed.bytes, "no byte twice"


def test_a_file_comes_by_several_ranges_at_once(tmp_path: pathlib.Path) -> None:
    remote, listed = made(tmp_path)
    three, reads = threading.Barrier(3, timeout=10), itertools.count()

    class Meeting(Failing):
        """A remote whose first reads of the large file wait for one another."""

        def read_into(self, path: str, version: str, offset: int, buffer: memoryview) -> int:
            if path == "unet/model.safetensors" and next(reads) < 3:
                three.wait()
            return super().read_into(path, version, offset, buffer)

    transfer = volume_in(tmp_path).fetch(Meeting(remote), listed)
    assert (transfer.fetched_bytes, three.broken) == (listed.bytes, False)


def test_a_remote_that_never_answers_is_given_up_after_some_tries(tmp_path: pathlib.Path) -> None:
    remote, listed = made(tmp_path)
    failing = Failing(remote)
    failing.fails = lambda _: True
    waits: list[float] = []
    volume = Volume(tmp_path / "volume", BUDGET, ranges=1, wait=waits.append)
    with pytest.raises(StoreUnavailable):
        volume.fetch(failing, listed)
    assert len(failing.reads) == MAX_TRIES
    assert waits == sorted(waits)


def test_a_component_beyond_the_budget_is_refused_with_what_is_missing(tmp_path: pathlib.Path) -> None:
    (one, first), (two, second) = made(tmp_path, 1), made(tmp_path, 2)
    volume = volume_in(tmp_path, first.bytes + second.bytes)
    volume.fetch(one, first)
    failing = Failing(two)
    with pytest.raises(VolumeFull, match=r"remove .* bytes or raise its budget") as refused:
        volume.fetch(failing, second)
    assert failing.reads == []
    assert 0 < refused.value.missing_bytes <= volume.ready()[first.digest]
    assert volume.remove(first.digest) >= first.bytes
    assert volume.path(first.digest) is None
    volume.fetch(two, second)
    assert volume.used_bytes() <= volume.budget_bytes + 4096


def test_a_full_disk_is_told_before_anything_is_fetched_and_leaves_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote, listed = made(tmp_path)
    failing = Failing(remote)

    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    volume = volume_in(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
        with pytest.raises(VolumeFull, match=r"No space left on device; remove components or free space"):
            volume.fetch(failing, listed)
    assert failing.reads == []
    assert volume.partial() == {}
    volume.fetch(failing, listed)
    assert volume.path(listed.digest)


def test_what_interrupted_fetches_of_others_left_gives_way_where_there_is_no_room(tmp_path: pathlib.Path) -> None:
    _, left, volume = interrupted(tmp_path)
    assert set(volume.partial()) == {left.digest}
    other, listed = made(tmp_path, seed=2)
    small = volume_in(tmp_path, volume.used_bytes() + listed.bytes - 1)
    small.fetch(other, listed)
    assert small.path(listed.digest)
    assert small.partial() == {}


def test_a_fetch_that_is_under_way_gives_way_to_nobody(tmp_path: pathlib.Path) -> None:
    first, (one, other) = FolderRemote(tmp_path / "remote-1"), (made(tmp_path), made(tmp_path, seed=2))
    volume = volume_in(tmp_path, one[1].bytes + other[1].bytes - 1)
    refused = list[VolumeFull]()

    def ask_meanwhile(number: int) -> bool:
        if number == 2:
            with pytest.raises(VolumeFull) as full:
                volume_in(tmp_path, volume.budget_bytes).fetch(other[0], other[1])
            refused.append(full.value)
        return False

    slow = Failing(first)
    slow.fails = ask_meanwhile
    volume.fetch(slow, one[1])
    assert len(refused) == 1
    assert contents(volume.path(one[1].digest) or tmp_path) == contents(tmp_path / "remote-1")


def test_a_component_that_is_held_is_not_removed(tmp_path: pathlib.Path) -> None:
    remote, listed = made(tmp_path)
    volume = volume_in(tmp_path)
    volume.fetch(remote, listed)
    with volume.using(listed.digest) as folder:
        with pytest.raises(ComponentInUse):
            volume_in(tmp_path).remove(listed.digest)
        assert contents(folder) == contents(tmp_path / "remote-1")
    volume.remove(listed.digest)
    with pytest.raises(WeightsGone, match="is not on the volume"), volume.using(listed.digest):
        pass


def test_what_a_dead_process_was_removing_goes_when_a_volume_is_opened(tmp_path: pathlib.Path) -> None:
    volume = volume_in(tmp_path)
    (volume.folder / "removed" / "half").mkdir()
    (volume.folder / "removed" / "half" / "file").write_text("x")
    volume_in(tmp_path)
    assert list((volume.folder / "removed").iterdir()) == []


def test_a_digest_that_is_a_path_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(PochadeError, match="must be 64 hex digits"):
        volume_in(tmp_path).path("../../etc")


def test_a_volume_without_direct_io_is_written_as_usual(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = os.open

    def refusing(path: object, flags: int, *rest: object, **named: object) -> int:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return plain(path, flags, *rest, **named)  # type: ignore[arg-type]

    remote, listed = made(tmp_path)
    volume = volume_in(tmp_path)
    monkeypatch.setattr(drafts.os, "open", refusing)
    volume.fetch(remote, listed)
    folder = volume.path(listed.digest)
    assert folder
    assert contents(folder) == contents(tmp_path / "remote-1")


def test_several_processes_at_once_fetch_a_component_once(tmp_path: pathlib.Path) -> None:
    _, listed = made(tmp_path)
    program = textwrap.dedent(
        """
        import pathlib, sys
        from tests.streams.weights.components import published
        from tests.streams.weights.test_volume import volume_in
        folder = pathlib.Path(sys.argv[1])
        print(volume_in(folder).fetch(*published(folder)).fetched_bytes)
        """
    )
    command, found = [sys.executable, "-c", program, str(tmp_path)], os.environ | {"PYTHONPATH": str(ROOT)}
    children = [subprocess.Popen(command, env=found, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    counts = sorted(int(child.communicate(timeout=PATIENCE_S)[0]) for child in children)
    assert counts == [0, 0, listed.bytes]


def parts_of(journal: pathlib.Path) -> int:
    """The lines of a journal; 0 of one that has gone since it was listed."""
    try:
        return len(journal.read_text().splitlines())
    except FileNotFoundError:
        return 0


def test_a_fetch_that_is_killed_leaves_no_lock_and_no_half_component(tmp_path: pathlib.Path) -> None:
    remote, listed = made(tmp_path)
    program = textwrap.dedent(
        """
        import pathlib, sys, threading
        from streams.weights.volume import Volume
        from tests.streams.weights.components import Failing, published
        folder = pathlib.Path(sys.argv[1])
        remote, listed = published(folder)
        failing = Failing(remote)
        plain = failing.inner.read_into
        def read_into(path, version, offset, buffer):
            if offset >= 3 << 20:
                threading.Event().wait()  # until it is killed
            return plain(path, version, offset, buffer)
        failing.inner.read_into = read_into
        Volume(folder / "volume", 1 << 30, ranges=3).fetch(failing, listed)
        """
    )
    child = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], cwd=ROOT)
    journals = tmp_path / "volume"
    end_s = time.monotonic() + PATIENCE_S
    try:
        while not any(parts_of(path) > 2 for path in journals.rglob("drafts/*.parts")):
            assert child.poll() is None, "the child ended by itself"
            assert time.monotonic() < end_s
            time.sleep(0.01)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait(PATIENCE_S)
    volume = volume_in(tmp_path, lock_timeout_s=0.0)
    assert volume.path(listed.digest) is None
    assert volume.fetch(remote, listed).kept_bytes >= 2 * MIB
    folder = volume.path(listed.digest)
    assert folder
    assert contents(folder) == contents(tmp_path / "remote-1")
