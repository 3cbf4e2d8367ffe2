"""What `pochade bench peers` counts of the answers that sides give over HTTP."""

import http.server
import itertools
import json
import pathlib
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from replay.bench.commands.bench_peers import PHASES
from replay.bench.commands.bench_peers import SIDES as OFFERED
from replay.bench.environment.processor_time import processor_s
from replay.bench.peers import environment
from replay.bench.peers.environment import REQUIREMENTS, python_of
from replay.bench.peers.hop_latencies import between
from replay.bench.peers.kills import BROKER, FRONT, WORKER, figures_of, parts_of
from replay.bench.peers.levels import HEAVY, LIGHT, burst_of, figures
from replay.bench.peers.load import PATH, Answered, at_times, body_of, in_turn
from replay.bench.peers.processes import descendants_of, end, processes_of
from replay.bench.peers.run import KILL, LEVELS, LOAD, _against_ray, _beside
from replay.bench.peers.sides import CELERY, POCHADE, RAY, SIDES, Work
from schemas.errors import PochadeError

IMAGE = {"data": [{"b64_json": "iVBORw0KGgo="}]}


class Server(http.server.ThreadingHTTPServer):
    """Answers with these statuses in turn, and an image where it is 200."""

    def __init__(self, *statuses: int) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.statuses = itertools.cycle(statuses)
        self.asked: list[tuple[str, Any]] = []
        self.keys: list[tuple[str, str]] = []


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append((self.path, body))
        self.server.keys.append((self.headers["idempotency-key"], self.headers["x-stainless-retry-count"]))
        answer = json.dumps(IMAGE).encode()
        self.send_response(next(self.server.statuses))
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(200, 200, 503)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def test_a_closed_loop_sends_as_many_as_asked_and_counts_what_has_no_image(server: Server) -> None:
    answers = in_turn(f"http://127.0.0.1:{server.server_port}", 6, clients=2)
    assert [each.has_image for each in answers].count(False) == 2
    assert sorted(body["prompt"] for _, body in server.asked) == sorted(body_of(n)["prompt"] for n in range(6))
    assert {path for path, _ in server.asked} == {PATH}
    assert all(each.took_ms > 0 for each in answers)


def test_an_open_loop_counts_from_when_a_request_was_due(server: Server) -> None:
    answers = at_times(f"http://127.0.0.1:{server.server_port}", [0.0, 5.0, 5.0])
    assert [round(each.due_ms - answers[0].due_ms) for each in answers] == [0, 5, 5]
    assert sum(each.has_image for each in answers) == 2


def test_a_client_that_insists_asks_again_under_the_same_key_until_there_is_an_image() -> None:
    made = Server(503, 200)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    (answer,) = at_times(f"http://127.0.0.1:{made.server_port}", [0.0], retries_s=30)
    made.shutdown()
    thread.join()
    made.server_close()
    assert (answer.has_image, answer.tries) == (True, 2)
    assert [count for _, count in made.keys] == ["0", "1"]
    assert len({key for key, _ in made.keys}) == 1


def test_a_request_that_gets_no_image_within_its_limit_is_lost_and_one_that_was_made_twice_is_doubled() -> None:
    answers = [Answered(0, 250.0, True), Answered(9, 4200.0, True, tries=3), Answered(20, 9000.0, False)]
    assert figures_of(answers, Counter({"a": 1, "b": 2, "c": 0}), 2) == {
        "kills": 2, "requests": 3, "lost": 1, "doubled": 1, "asked_again": 1, "slowest_s": 4.2,
    }  # fmt: skip


def test_a_broker_is_killed_where_a_side_has_one() -> None:
    assert {name for name in SIDES if BROKER in parts_of(name)} == {POCHADE, CELERY}
    assert all({WORKER, FRONT} <= set(parts_of(name)) for name in SIDES)


def test_quality_counts_what_is_in_time_by_the_level_that_made_it() -> None:
    answers = [
        Answered(0, 100.0, True, LIGHT), Answered(0, 900.0, True, HEAVY), Answered(0, 5100.0, True, HEAVY),
        Answered(0, 50.0, False),
    ]  # fmt: skip
    found = figures(answers)
    assert (found["in_time"], found["of_these_heavy"]) == (0.5, 0.5)
    assert (found["quality_in_time"], found["quality_of_all"]) == (0.9, 0.45)
    assert figures(answers[3:])["quality_in_time"] is None


def test_a_burst_has_eight_times_as_many_arrivals_between_two_calms() -> None:
    arrivals = burst_of(10, 8, 5)
    spans = [sum(5000 * n <= at_ms < 5000 * (n + 1) for at_ms in arrivals) for n in range(3)]
    assert spans[1] > 6 * max(spans[0], spans[2]) > 0


def test_a_side_that_is_not_there_gives_no_image_and_ends_nothing() -> None:
    assert [each.has_image for each in in_turn("http://127.0.0.1:9", 2)] == [False, False]


def test_what_an_answer_takes_beside_the_work_leaves_the_work_out() -> None:
    answers = [Answered(0, 25.0, True), Answered(0, 30.0, True), Answered(0, 999.0, False)]
    found = _beside(answers, Work(workers=2, seconds=0.02))
    assert (found["requests"], found["without_image"], found["mean_ms"]) == (3, 1, 27.5)
    assert found["beside_ms"] == {"p50": 5.0, "p90": 10.0, "p99": 10.0}
    assert _beside(answers[2:], Work(1, 1.0))["beside_ms"] is None


def test_time_on_the_way_is_told_from_place_to_place_and_the_work_left_out() -> None:
    moments = {
        "a": {"sent": 0.0, "jobs": 5.0, "images": 30.0},
        "b": {"sent": 100.0, "jobs": 107.0, "images": 131.0},
        "not seen whole": {"sent": 0.0, "images": 900.0},
    }
    found = between(moments, ("sent", "jobs", "images"), {"images": 20.0})
    assert found == {"sent to jobs": 6.0, "jobs to images": 4.5}
    assert between({}, ("sent", "jobs"), {}) == {}


def test_times_stand_as_multiples_of_ray_serves() -> None:
    phases = {
        name: {"one_client": {"beside_ms": {"p50": ms, "p99": 2 * ms}, "mean_ms": 20 + ms}}
        | {"steady": {"beside_ms": {"p50": 2 * ms, "p99": 3 * ms}, "mean_ms": 20 + ms}}
        for name, ms in ((POCHADE, 30.0), (RAY, 10.0))
    }
    found = _against_ray(phases)["pochade_over_ray_serve"]
    assert found["one_client"] == {"p50": 3.0, "p99": 3.0, "mean": round(50 / 30, 3)}
    assert _against_ray({POCHADE: phases[POCHADE]}) == {}


def test_the_peers_are_installed_once_and_anew_where_their_versions_change(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = list[list[str]]()

    def ran(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        calls.append(command)
        (tmp_path / "peers").mkdir(exist_ok=True)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", ran)
    told = list[str]()
    for _ in range(2):
        assert python_of(tmp_path / "peers", told.append) == tmp_path / "peers" / "bin" / "python"
    assert (len(calls), len(told)) == (2, 1)
    assert calls[1][-2:] == ["-r", str(REQUIREMENTS)]
    other = tmp_path / "requirements.txt"
    other.write_text("fastapi==1\n")
    monkeypatch.setattr(environment, "REQUIREMENTS", other)
    python_of(tmp_path / "peers", told.append)
    assert len(calls) == 4


def test_peers_that_cannot_be_installed_are_told_with_what_pip_says(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = subprocess.CompletedProcess([], 1, "", "no matching distribution")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(PochadeError, match="no matching distribution"):
        python_of(tmp_path / "peers", lambda _: None)


def test_what_a_side_has_begun_is_found_and_ended_with_it() -> None:
    busy = "while sum(os.times()[:2]) < .05: pass"  # more than the system's clock of processor time may miss
    began = [sys.executable, "-c", f"import os, time\n{busy}\nos.fork() or time.sleep(60); time.sleep(60)"]
    with subprocess.Popen(began) as parent:
        while not (children := descendants_of([parent.pid])):
            assert parent.poll() is None
        assert processor_s(processes_of(pathlib.Path("/no/such/folder"), [parent.pid])) > 0
        parent.kill()
        parent.wait()
        end(children)
    assert not [child for child in children if child.is_running()]
    assert processor_s(children) == 0


def test_the_command_offers_every_side() -> None:
    assert OFFERED == SIDES
    assert PHASES == (LOAD, KILL, LEVELS)
