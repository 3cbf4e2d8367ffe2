"""Processes of a home say that they run, and why they are not ready, as long as they answer."""

import json
import os
import pathlib

import pytest

from streams.observing.health import Health, served
from streams.processes.announced import FOLDER, NO_ANSWER, announced, readiness, running
from streams.settings import Http


def test_a_process_that_starts_says_so_until_it_is_ready_and_nothing_once_it_has_ended(tmp_path: pathlib.Path) -> None:
    health = Health(["router", "worker"])
    with served(health, Http()) as address, announced(tmp_path, "p", ["router", "worker"], address):
        assert readiness(tmp_path, "p") == {"router": "is starting", "worker": "is starting"}
        assert readiness(tmp_path, "q") == {}, "another deployment with this home"
        health.watch("router", ready=lambda: "", alive=lambda: "")
        assert readiness(tmp_path, "p") == {"router": "", "worker": "is starting"}
    assert (readiness(tmp_path, "p"), list((tmp_path / FOLDER).iterdir())) == ({}, [])


def test_a_home_that_a_process_makes_is_its_owners_alone(tmp_path: pathlib.Path) -> None:
    with announced(tmp_path / "home", "p", ["router"], "http://127.0.0.1:1"):
        assert [(tmp_path / "home" / name).stat().st_mode & 0o777 for name in ("", FOLDER)] == [0o700, 0o700]


@pytest.mark.parametrize(
    "left",
    [
        "{",
        "[]",
        "null",
        json.dumps({"prefix": "p", "roles": ["router"]}),
        json.dumps({"prefix": "p", "address": "http://127.0.0.1:1", "roles": []}),
    ],
)
def test_what_a_killed_process_left_counts_for_nothing_and_the_next_one_removes_it(
    tmp_path: pathlib.Path, left: str
) -> None:
    file = tmp_path / FOLDER / str(2**30)  # no process has this id
    file.parent.mkdir()
    file.write_text(left)
    assert (readiness(tmp_path, "p"), running(tmp_path)) == ({}, [])
    with announced(tmp_path, "p", ["router"], "http://127.0.0.1:1"):
        (file.parent / str(os.getppid())).write_text(left)
        assert running(tmp_path) == ["router"]
        (file.parent / str(os.getppid())).unlink()
        assert [each.name for each in file.parent.iterdir()] == [str(os.getpid())]


def test_a_gateway_that_lives_and_does_not_answer_says_so_and_no_later_process_of_its_id_does(
    tmp_path: pathlib.Path,
) -> None:
    with announced(tmp_path, "p", ["gateway", "router"], "http://127.0.0.1:1"):
        assert readiness(tmp_path, "p") == {"gateway": NO_ANSWER}
        os.utime(tmp_path / FOLDER / str(os.getpid()), (1e9, 1e9))
        assert readiness(tmp_path, "p") == {}


def test_roles_serve_though_their_home_cannot_be_written(tmp_path: pathlib.Path) -> None:
    (tmp_path / FOLDER).write_text("a file where the folder should be")
    with announced(tmp_path, "p", ["router"], "http://127.0.0.1:1"):
        assert readiness(tmp_path, "p") == {}
