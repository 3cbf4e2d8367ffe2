"""Profiling a server: as many requests are in flight as is said, and the fewest that suffice are named."""

import dataclasses
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from agents.commands import profile as command
from agents.profiling import profiling
from agents.profiling import rounds as profiling_rounds
from agents.profiling.in_flight import advice, enough, in_flight, sizes_of
from planner.catalog.server import Server
from replay.bench.image_server import ImageServer, Misbehaviour
from tests.agents.lab.evaluation import catalogs
from tests.agents.profiling.test_profiling import run_profile
from tests.builders import a_variant
from tests.patience import PATIENCE_S


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ImageServer]:
    monkeypatch.setattr(profiling, "ENOUGH_S", 0.0)
    found = ImageServer(service_s=0.03).start()
    yield found
    found.close()


def test_as_many_calls_are_open_all_the_time() -> None:
    together = threading.Barrier(3)
    with in_flight(lambda: together.wait(PATIENCE_S), 3) as wait:
        for _ in range(3):
            wait()
        together.abort()


def test_what_a_call_raises_is_raised_once_it_is_waited_for() -> None:
    def call() -> None:
        raise ValueError("no such colour")

    with pytest.raises(ValueError, match="no such colour"), in_flight(call, 2) as wait:
        wait()


def test_a_server_is_measured_with_one_two_four_and_so_on_in_flight(server: ImageServer) -> None:
    variant = a_variant(engine="openai", server=Server(url=server.url, in_flight=6))
    assert sizes_of(6) == (1, 2, 4, 6)
    found = profiling.measure(variant, (1, 64), 1, 600)
    assert list(found.calls) == [1, 2, 4, 6], "the batches that are asked for are not the server's"
    assert server.most == 6
    assert all(len(taken) == profiling.REPEATS for taken in found.calls.values())


def test_a_server_s_fault_ends_the_measurement(server: ImageServer) -> None:
    server.next.extend([Misbehaviour()] * 3 + [Misbehaviour(status=500, body=b'{"detail": "no kernel"}')])
    with pytest.raises(Exception, match="answers 500: no kernel"):
        profiling.measure(a_variant(engine="openai", server=Server(url=server.url, in_flight=2)), (1,), 1, 600)


def test_the_fewest_that_are_near_the_best_suffice() -> None:
    assert enough({1: 100.0, 2: 102.0, 4: 104.0, 8: 206.0}) == 4
    assert enough({1: 100.0, 2: 205.0, 4: 400.0}) == 1
    assert enough({1: 100.0, 2: 100.0}) == 2


def test_what_to_state_is_said_of_servers_alone_and_that_more_may_be_faster() -> None:
    variants = {"light": a_variant(), "heavy": a_variant(server=Server(url="http://host/v1", in_flight=4))}
    times = {"light": {1: 10.0}, "heavy": {1: 100.0, 2: 100.0, 4: 200.0}}
    said = "# heavy: in_flight = 2 (images a second by requests in flight: 1: 10, 2: 20, 4: 20)"
    assert advice(variants, times) == [said]
    (line,) = advice(variants, times | {"heavy": {1: 100.0, 2: 100.0, 4: 100.0}})
    assert line.startswith("# heavy: in_flight = 4 (")
    assert line.endswith("; more may be faster: raise it and measure again")


def test_the_command_measures_a_server_and_says_how_many_suffice(
    server: ImageServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    of_server = f'engine = "openai"\nserver = {{ url = "{server.url}", in_flight = 2 }}'
    heavy = catalogs.CATALOG.partition("[variants.heavy]\n")
    text = "".join((*heavy[:2], heavy[2].replace('engine = "profile"', of_server, 1)))
    monkeypatch.setattr(catalogs, "CATALOG", text)
    monkeypatch.setattr(command, "_planned", lambda wanted, *_: dataclasses.replace(wanted, rounds=1))
    monkeypatch.setattr(profiling_rounds, "_in_new_process", lambda _device, *asked: profiling.measure(*asked))
    said = run_profile(tmp_path, "--no-quality", "--levels", "heavy")
    assert "# heavy: in_flight = " in said
    assert server.most == 2
