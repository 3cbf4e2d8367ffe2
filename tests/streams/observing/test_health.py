"""Health and metrics over real HTTP: who is asked, what is answered, and that a broken probe is an answer too."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from streams import metrics
from streams.observing.health import Health, served
from streams.settings import Http, InvalidSettings
from tests.patience import PATIENCE_S

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@pytest.fixture
def health() -> Health:
    return Health(["router", "worker"])


@pytest.fixture
def address(health: Health) -> Iterator[str]:
    with served(health, Http()) as address:
        yield address


def fine() -> str:
    return ""


def ask(url: str, method: str = "GET") -> tuple[int, str]:
    try:
        with DIRECT.open(urllib.request.Request(url, method=method), timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def reasons(url: str) -> tuple[int, dict[str, str]]:
    status, body = ask(url)
    answered: dict[str, str] = json.loads(body)["reasons"]
    return status, answered


def test_a_process_that_starts_is_alive_but_not_ready_and_says_of_every_role_why(address: str) -> None:
    assert reasons(f"{address}/livez") == (200, {})
    assert reasons(f"{address}/readyz") == (503, {"router": "is starting", "worker": "is starting"})


def test_it_is_ready_only_when_every_role_is(health: Health, address: str) -> None:
    plan: list[str] = []
    health.watch("worker", ready=fine, alive=fine)
    health.watch("router", ready=lambda: "" if plan else "holds no plan yet", alive=fine)
    assert reasons(f"{address}/readyz") == (503, {"router": "holds no plan yet"})
    plan.append("a plan")
    assert reasons(f"{address}/readyz") == (200, {})


def test_a_role_that_only_a_new_process_helps_fails_liveness_alone(health: Health, address: str) -> None:
    health.watch("worker", ready=fine, alive=lambda: "a job is overdue")
    health.watch("router", ready=fine, alive=fine)
    assert reasons(f"{address}/livez") == (503, {"worker": "a job is overdue"})
    assert reasons(f"{address}/readyz") == (200, {})


def test_a_process_that_stops_is_not_ready_but_alive(health: Health, address: str) -> None:
    health.watch("worker", ready=fine, alive=fine)
    health.watch("router", ready=fine, alive=fine)
    health.stop()
    assert reasons(f"{address}/readyz") == (503, {"router": "is stopping", "worker": "is stopping"})
    assert reasons(f"{address}/livez") == (200, {})


def test_a_probe_that_raises_is_a_reason_not_a_crash(health: Health, address: str) -> None:
    health.watch("worker", ready=lambda: str(1 // 0), alive=fine)
    health.watch("router", ready=fine, alive=fine)
    status, why = reasons(f"{address}/readyz")
    assert status == 503
    assert why["worker"].startswith("cannot be asked: ZeroDivisionError")


def test_metrics_are_what_prometheus_reads(address: str) -> None:
    metrics.DEAD_WORK.labels("router").inc()
    status, text = ask(f"{address}/metrics")
    assert status == 200
    assert 'pochade_dead_work_total{role="router"}' in text


def test_other_paths_answer_which_there_are(address: str) -> None:
    assert ask(f"{address}/healthz") == (404, "there are /livez, /readyz and /metrics\n")


def test_head_is_answered_without_a_body(address: str) -> None:
    assert ask(f"{address}/livez", "HEAD") == (200, "")


def test_a_slow_probe_holds_up_nobody_else(health: Health, address: str) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def slow() -> str:
        asked.set()
        go_on.wait(PATIENCE_S)
        return ""

    health.watch("worker", ready=slow, alive=fine)
    waiting = threading.Thread(target=ask, args=(f"{address}/readyz",))
    waiting.start()
    assert asked.wait(PATIENCE_S)
    assert ask(f"{address}/livez")[0] == 200
    go_on.set()
    waiting.join()


def test_a_port_that_is_taken_is_an_error_that_names_the_setting(address: str) -> None:
    taken = int(address.rpartition(":")[2])
    with pytest.raises(InvalidSettings, match=r"choose another http\.port"), served(Health([]), Http(port=taken)):
        pass


def test_nothing_is_served_where_the_settings_say_so() -> None:
    with served(Health([]), Http(port=-1)) as address:
        assert address == ""


def test_the_port_is_free_again_when_the_block_has_ended() -> None:
    with served(Health([]), Http()) as address:
        port = int(address.rpartition(":")[2])
    with served(Health([]), Http(port=port)) as address:
        assert ask(f"{address}/livez")[0] == 200
