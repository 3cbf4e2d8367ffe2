"""A real browser on every screen of the console, against one live deployment of the tiny models.

Playwright has an environment of its own (fetched once, 140 MB of disk); the browser is Debian's `chromium`.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import psutil
import pytest

from schemas.ids import new_request_id
from schemas.messages import GenerateRequest
from schemas.record import Outgoing
from schemas.topics import DLQ, PROMPTS
from streams.broker import embedded
from streams.clock import now_ms
from streams.codec.avro import encode
from streams.codec.headers import ERROR
from streams.kafka.producers.writing import send_all
from streams.kafka.topics import create_topics
from streams.settings import load
from tests.integration.pipeline import ROLES, Pipeline
from tests.integration.waiting import poll_until
from tests.nightly.console_walk_text import HOSTILE
from tests.nightly.official_clients import KEPT
from tests.paths import ROOT

PACKAGES = ("playwright==1.65.2", "axe-playwright-python==0.1.8")
CHROMIUM = pathlib.Path("/usr/bin/chromium")
WALK = ROOT / "tests" / "nightly" / "console_walk.py"
PROMPT_FILE = ROOT / "replay" / "load" / "prompts.txt"
POLICY = "diffserve-static"
OUT = os.environ.get("TEST_CONSOLE_OUT")
FIRST_PAINT_MS = 300
MANY = 10_000
SHOWN, SHOWN_RPS = 150, 4.0  # requests before the README's screenshots, a second
MEASURED_S = 20
ONE_VIEWER, TWENTY_VIEWERS = 0.02, 0.10  # of a core

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason="needs Debian's chromium: apt-get install chromium")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = pathlib.Path(OUT) if OUT else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def pipeline(broker_home: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    kafka = {"prefix": "console", "session_timeout_ms": 3000}
    settings = load({"home": broker_home, "kafka": kafka, "catalog": "tiny", "planner": {"policy": POLICY}})
    create_topics(settings, ["light", "middle", "heavy", "styles"])
    extra = ["console.port=0", "console.prompts=clear", "planner.parameters.threshold=0.97"]
    extra += ["console.command_timeout_s=300"]  # commands are niced, and wait for all else on a busy machine
    extra += ["console.max_requests=20000", "planner.worker_timeout_ms=60000"]  # a frozen worker is waited for
    roles = {**ROLES, "console": ["console"]}
    pipeline = Pipeline(settings, tmp_path_factory.mktemp("logs"), catalog="tiny", extra=extra, roles=roles)
    try:
        yield pipeline.start()
    finally:
        pipeline.close()


@pytest.fixture(scope="module")
def address(pipeline: Pipeline) -> str:
    """Of the console; some requests have ended by then."""
    found = pipeline.log("console").split("console on ")[1].split()[0].rstrip("/")
    wait_all(pipeline, [asked(pipeline, prompt) for prompt in PROMPT_FILE.read_text().splitlines()[:60]])
    return found


def asked(pipeline: Pipeline, prompt: str, **fields: Any) -> str:
    """The id of a request that was written."""
    request = GenerateRequest(request_id=new_request_id(), prompt=prompt, created_ms=now_ms(), **fields)
    pipeline.write(encode(request), request.request_id.encode())
    return request.request_id


def wait_all(pipeline: Pipeline, ids: list[str]) -> None:
    pipeline.until(lambda: pipeline.ended(ids) == len(ids), f"{len(ids)} requests end")


def browser_python() -> str:
    """The Python that has Playwright."""
    home = KEPT / "-".join(PACKAGES).replace("==", "-")
    python = home / "bin" / "python"
    if not (home / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *PACKAGES], check=True)
        (home / "installed").touch()
    return str(python)


@contextlib.contextmanager
def walking(address: str, out: pathlib.Path, step: str) -> Iterator["subprocess.Popen[str]"]:
    """A browser that takes a step; it is ended with the block."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    environment["NO_PROXY"] = environment["no_proxy"] = "127.0.0.1"
    command = [browser_python(), str(WALK), address, str(out), step]
    browser = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, process_group=0
    )
    try:
        yield browser
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(browser.pid, signal.SIGKILL)
        browser.wait()


def found_by(browser: "subprocess.Popen[str]", within_s: float = 540) -> Any:
    """What a browser found at the end of its step; it complained of nothing, and asked nobody but the console."""
    said, complained = browser.communicate(timeout=within_s)
    assert browser.returncode == 0, complained[-4000:]
    told = json.loads(said.splitlines()[-1])
    assert told["complaints"] == []
    assert len(told["hosts"]) == 1
    return told["found"]


def walked(address: str, out: pathlib.Path, step: str) -> Any:
    with walking(address, out, step) as browser:
        return found_by(browser)


def test_a_draft_is_watched_as_it_is_refined_and_a_cancellation_is_truthful(
    pipeline: Pipeline, address: str, out: pathlib.Path
) -> None:
    heavy = next(name for name, (_, beat) in pipeline.heartbeats.items() if beat.variant == "heavy")
    frozen = pipeline.process_ids()[heavy]
    assert frozen is not None
    os.kill(frozen, signal.SIGSTOP)  # a request that is escalated waits, for as long as it takes to look at it
    try:
        with walking(address, out, "draft") as browser:
            assert browser.stdout is not None
            assert browser.stdout.readline().strip() == "draft", (browser.stderr.read() if browser.stderr else "")[
                -4000:
            ]
            os.kill(frozen, signal.SIGCONT)
            found = found_by(browser)
    finally:
        os.kill(frozen, signal.SIGCONT)
    assert found["same"]
    assert found["pictures"] == 2
    assert found["ended"] == "completed"
    assert [each for each in found["bars"] if "generate" in each] == ["generate on light", "generate on heavy"]
    assert "cancelled" in found["cancelled"]["waiting"]
    assert found["cancelled"]["ended"] == 0, "what has ended is not cancelled"
    pipeline.until(pipeline.is_ready, "heavy is back")


def test_the_readmes_screenshots_are_of_this_deployment(pipeline: Pipeline, address: str, out: pathlib.Path) -> None:
    dice, prompts = random.Random(1), PROMPT_FILE.read_text().splitlines()
    ids = []
    for _ in range(SHOWN):
        ids.append(asked(pipeline, dice.choice(prompts), tenant=dice.choice(["studio", "shop"])))
        threading.Event().wait(dice.expovariate(SHOWN_RPS))
    wait_all(pipeline, ids)
    assert walked(address, out, "pictures")
    for name in ("console-now", "console-request", "console-gallery"):
        assert (out / f"{name}.png").stat().st_size > 10_000


def test_every_screen_meets_wcag_2_2_aa_fits_360_px_and_is_painted_at_once(address: str, out: pathlib.Path) -> None:
    found = walked(address, out, "screens")
    assert [each for each in found if each["violations"]] == []
    assert [each for each in found if each["overflow"] > 0] == []
    assert [each for each in found if each["cut"] > 1 and each["width"] == 360] == [], "a column is out of sight"
    paints = sorted(each["paint_ms"] for each in found)
    print(f"first paint of {len(paints)} pages: median {paints[len(paints) // 2]:.0f} ms, most {paints[-1]:.0f} ms")
    for each in sorted(found, key=lambda page: -page["paint_ms"])[:5]:
        page = f"{each['path']} {each['scheme']} {each['width']}"
        print(f"  {each['paint_ms']:.0f} ms, {each['answered_ms']:.0f} of them until the answer: {page}")
    assert paints[len(paints) // 2] <= FIRST_PAINT_MS


def test_orders_are_given_from_the_pages_and_obeyed(pipeline: Pipeline, address: str, out: pathlib.Path) -> None:
    found = walked(address, out, "orders")
    assert "policy" in found["tried"]
    assert "pinned by" in found["pinned"]
    assert "rolled back" in found["rolled"]
    policies = [plan.policy for _, plan in pipeline.plans]
    assert policies.index("clipper-heavy") < len(policies) - 1 - policies[::-1].index(POLICY)
    assert "no promise is broken" in found["audit"]
    for word in ("pin", "rollback", "unpin", "audit", "submit", "cancel"):
        assert word in found["actions"]
    assert "as it went" in found["simulated"]
    assert "The estimate rests on" in found["estimated"]


def test_the_keyboard_is_enough(address: str, out: pathlib.Path) -> None:
    found = walked(address, out, "keyboard")
    assert found["skip"] == "skip"
    assert found["seen"][-1][0] == "Requests"
    assert all("none" not in outline for _, outline in found["seen"])
    assert found["kept"] == found["asked"]
    assert found["paused"] == "true"


def test_without_javascript_pages_are_read_and_forms_send(address: str, out: pathlib.Path) -> None:
    found = walked(address, out, "without_script")
    assert min(found["words"].values()) > 40, found["words"]
    assert found["rows"] > 10
    assert "accepted" in found["said"]
    assert found["live"] == 0


def test_hostile_prompts_look_right_and_run_nothing(pipeline: Pipeline, address: str, out: pathlib.Path) -> None:
    wait_all(pipeline, [asked(pipeline, prompt, tenant="hostile") for prompt in HOSTILE])
    found = walked(address, out, "hostile")
    assert found["requests"] == len(HOSTILE)
    assert [each for each in found["pages"] if each["ran"] or each["overflow"] > 0] == []


def test_a_dead_letter_is_redriven_from_its_page(pipeline: Pipeline, address: str, out: pathlib.Path) -> None:
    """One of ours: clients' own errors, such as those of the test before, are not offered."""
    script, before = "<script>window.hacked = true</script>", len(pipeline.dead_letters)
    facts = {"class": "EngineFailed", "message": script, "role": "worker", "topic": PROMPTS, "request_id": "buried"}
    headers = {f"{ERROR}{name}": fact.encode() for name, fact in facts.items()}
    asked = json.dumps({"prompt": f"a red heart {script}", "request_id": "buried"}).encode()
    send_all(pipeline.producer, [Outgoing(topic=DLQ, key=b"buried", value=asked, headers=headers)])
    pipeline.until(lambda: len(pipeline.dead_letters) > before, "it lies on the dlq")
    found = walked(address, out, "letters")
    assert "to prompts.v1 as buried" in found["tried"]
    assert "1 of 1 sent" in found["sent"]
    assert not found["ran"]
    pipeline.until(lambda: pipeline.ended(["buried"]) == 1, "it was generated")


def test_ten_thousand_requests_scroll(pipeline: Pipeline, address: str, out: pathlib.Path) -> None:
    late = GenerateRequest(request_id="-", prompt="a star", created_ms=now_ms(), deadline_ms=now_ms(), tenant="many")
    ids = [new_request_id() for _ in range(MANY)]
    for begin in range(0, MANY, 500):
        send_all(pipeline.producer, [
            Outgoing(topic=PROMPTS, key=each.encode(), value=encode(dataclasses.replace(late, request_id=each)))
            for each in ids[begin : begin + 500]
        ], 60)  # fmt: skip
    wait_all(pipeline, ids)
    found = walked(address, out, "ten_thousand")
    print(f"{found['rows']} rows in {found['s']:.1f} s of scrolling, longest task {found['longest_task_ms']:.0f} ms")
    assert found["rows"] == found["once"] == MANY
    assert "Paused" in found["paused"]


def test_a_live_page_survives_a_restart_of_the_broker(pipeline: Pipeline, address: str, out: pathlib.Path) -> None:
    with walking(address, out, "restart") as browser:
        assert browser.stdout is not None
        assert browser.stdout.readline().strip() == "open"
        embedded.stop(pipeline.settings)
        embedded.ensure(pipeline.settings)
        pipeline.until(pipeline.is_ready, "all roles back")
        asked(pipeline, "a red heart after all", tenant="after")
        assert found_by(browser)["same"]


def viewer(address: str, path: str, stopping: threading.Event) -> None:
    """Read a live page until it shall stop."""
    with httpx.Client(timeout=30) as http, http.stream("GET", address + path) as answer:
        for _ in answer.iter_bytes():
            if stopping.is_set():
                return


def busy_share(pipeline: Pipeline, address: str, viewers: int) -> float:
    """The share of a core that the console uses with so many viewers, while two requests a second come."""
    process = psutil.Process(pipeline.process_ids()["console"])
    stopping, paths = threading.Event(), ("/live/now", "/live/requests", "/live/gallery", "/live/fleet", "/live/plan")
    threads = [threading.Thread(target=viewer, args=(address, paths[n % len(paths)], stopping)) for n in range(viewers)]
    for thread in threads:
        thread.start()
    asked(pipeline, "a first star")
    before, begun_s = process.cpu_times(), time.monotonic()
    for n in range(2 * MEASURED_S):
        asked(pipeline, f"{n} yellow stars")
        threading.Event().wait(max(0.0, begun_s + (n + 1) / 2 - time.monotonic()))
    after, took_s = process.cpu_times(), time.monotonic() - begun_s
    stopping.set()
    asked(pipeline, "a last star")  # so that each viewer is told something, and sees that it shall stop
    for thread in threads:
        thread.join(60)
    return (after.user + after.system - before.user - before.system) / took_s


def test_viewers_cost_little(pipeline: Pipeline, address: str) -> None:
    poll_until(lambda: httpx.get(f"{address}/").status_code == 200, "the console answers")
    nobody, one, twenty = (busy_share(pipeline, address, viewers) for viewers in (0, 1, 20))
    print(f"share of a core: {nobody:.2%} without a viewer, {one:.2%} with one, {twenty:.2%} with twenty")
    assert one - nobody <= ONE_VIEWER
    assert twenty - nobody <= TWENTY_VIEWERS
