"""What a home remembers about its broker."""

import pathlib
import subprocess
import sys

import pytest

from schemas.errors import PochadeError
from streams.broker import record as broker_record
from streams.broker.container import Container
from streams.broker.node import Ports
from streams.broker.process import Process
from streams.broker.record import Record, locked

PORTS = Ports(broker=9092, controller=9093, registry=8081)


@pytest.mark.parametrize("broker", [None, Process(17, 1700000000.25), Container("pochade-kafka-abc")])
def test_a_record_is_read_as_it_was_written(tmp_path: pathlib.Path, broker: broker_record.Handle | None) -> None:
    record = Record(cluster_id="c", ports=PORTS, broker=broker, registry=Process(18, 1700000001.5))
    broker_record.write(tmp_path, record)
    assert broker_record.read(tmp_path) == record


def test_a_home_without_a_broker_has_no_record(tmp_path: pathlib.Path) -> None:
    assert broker_record.read(tmp_path) is None


def test_a_damaged_record_is_named_with_what_to_do(tmp_path: pathlib.Path) -> None:
    broker_record.path(tmp_path).write_text('{"cluster_id": ')
    with pytest.raises(PochadeError, match=r"broker\.json is damaged .* delete the file"):
        broker_record.read(tmp_path)


def test_addresses_follow_from_the_ports() -> None:
    record = Record(cluster_id="c", ports=PORTS)
    assert (record.bootstrap, record.registry_url) == ("127.0.0.1:9092", "http://127.0.0.1:8081")


def test_a_second_process_waits_while_one_holds_the_lock(tmp_path: pathlib.Path) -> None:
    code = f"import fcntl; fcntl.flock(open({str(tmp_path / 'lock')!r}, 'w'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    with broker_record.locked(tmp_path):
        held = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "BlockingIOError" in held.stderr
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_home_that_cannot_be_made_is_an_error_that_names_it_and_why(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "home" / "kafka"
    with (
        pytest.raises(PochadeError, match=rf"folder {folder} cannot be made: .+; give another with --home"),
        locked(folder),
    ):
        pass


def test_a_home_where_nothing_can_be_made_is_an_error() -> None:
    with (
        pytest.raises(PochadeError, match="folder /proc/x/kafka cannot be made"),
        locked(pathlib.Path("/proc/x/kafka")),
    ):
        pass
