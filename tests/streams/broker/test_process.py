"""Detached processes: recognised, distinguished, ended."""

import dataclasses
import os
import pathlib
import sys
import time
from collections.abc import Iterator

import pytest

from streams.broker.process import Process, reasons, spawn
from tests.patience import PATIENCE_S

READY = "print('ready', flush=True)"
STUBBORN = f"import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); {READY}; time.sleep(60)"
HEADLESS = f"""
import ctypes, threading, time
def live():
    while "zombie" not in open("/proc/self/status").read():
        time.sleep(0.01)
    {READY}
    time.sleep(60)
threading.Thread(target=live).start()
ctypes.CDLL(None).pthread_exit(None)  # the first thread ends before the others, as it may after SIGKILL
"""
PATIENT = f"import time; {READY}; time.sleep(60)"


def started(code: str, log: pathlib.Path) -> Process:
    process = spawn([sys.executable, "-c", code], log)
    deadline = time.monotonic() + PATIENCE_S
    while "ready" not in reasons(log):
        assert time.monotonic() < deadline, f"not ready within {PATIENCE_S} s: {reasons(log)}"
    return process


@pytest.fixture
def patient(tmp_path: pathlib.Path) -> Iterator[Process]:
    process = started(PATIENT, tmp_path / "log")
    yield process
    process.stop(5)


def test_a_spawned_process_lives_in_its_own_session(patient: Process) -> None:
    assert patient.is_alive()
    assert os.getsid(patient.pid) == patient.pid != os.getsid(0)
    assert patient.rss_bytes() > 0


def test_variables_are_added_to_the_environment_of_who_starts_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OURS", "stays")
    code = "import os; print(os.environ['OURS'], os.environ['ADDED'])"
    process = spawn([sys.executable, "-c", code], tmp_path / "log", {"ADDED": "is there"})
    deadline = time.monotonic() + PATIENCE_S
    while process.is_alive():
        assert time.monotonic() < deadline
    assert reasons(tmp_path / "log") == "stays is there"


def test_another_process_with_the_same_id_is_not_taken_for_ours(patient: Process) -> None:
    assert not dataclasses.replace(patient, started=patient.started - 60).is_alive()


def test_stopping_ends_it_and_may_be_repeated(patient: Process) -> None:
    patient.stop(5)
    assert not patient.is_alive()
    patient.stop(5)
    assert patient.rss_bytes() == 0


def test_one_that_ignores_sigterm_is_killed_after_the_limit(tmp_path: pathlib.Path) -> None:
    process = started(STUBBORN, tmp_path / "log")
    begun = time.monotonic()
    process.stop(0.2)
    assert not process.is_alive()
    assert time.monotonic() - begun >= 0.2


def test_a_zombie_lives_as_long_as_any_of_its_threads(tmp_path: pathlib.Path) -> None:
    process = started(HEADLESS, tmp_path / "log")
    assert process.is_alive()
    process.stop(5)
    assert not process.is_alive()


def test_the_log_of_the_run_before_is_kept_beside_the_new_one(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "log"
    log.write_text("earlier\n")
    started(READY, log)
    assert log.read_text() == "ready\n"
    assert (tmp_path / "log.1").read_text() == "earlier\n"


def test_reasons_are_errors_and_their_causes_not_the_stack_between_them(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "[t] WARN so\n[t] ERROR no start (X)\n\tat a.b(C)\nCaused by: java.net.BindException: taken\n\tat d\n"
    )
    assert reasons(log) == "[t] ERROR no start (X)\nCaused by: java.net.BindException: taken"


def test_reasons_of_a_log_without_errors_are_its_last_lines(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "log"
    assert reasons(log) == ""
    log.write_text("one\ntwo\nthree\n")
    assert reasons(log, lines=2) == "two\nthree"
