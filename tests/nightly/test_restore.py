"""Restore drills: six losses on a live deployment, each seen and mended as `streams/operator/RESTORE.md` says.

The page's bash blocks are run as they stand, and its text blocks are what `pochade doctor` says, but for numbers. The
tests follow each other on one deployment: each role a process, a broker of its own, Milvus Lite, a bucket of an S3
server. The last but one takes its broker's disk.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import boto3
import pytest
from confluent_kafka.admin import AdminClient
from moto.s3.models import S3Backend

from replay.verify.chaos import brokers
from replay.verify.chaos.brokers import BrokerCluster
from schemas.ids import new_request_id
from schemas.messages import GenerateOptions, GenerateRequest
from schemas.topics import PLAN
from streams.broker import address, embedded
from streams.clock import now_ms
from streams.codec.avro import encode
from streams.kafka.clients import client_config, topic_name
from streams.kafka.topics import create_topics
from streams.processes import forkserver
from streams.settings import PREFIX, Settings, load
from streams.store.open import open_store
from streams.vectors import lite, lite_server
from tests.integration import waiting
from tests.integration.clusters import on, running_cluster
from tests.integration.pipeline import ROLES, Pipeline, all_completed
from tests.integration.waiting import ask, poll_until
from tests.paths import CATALOGS, ROOT
from tests.patience import PATIENCE_S
from tests.streams.store.s3_server import s3_server, set_up_credentials

PAGE: Final = ROOT / "streams" / "operator" / "RESTORE.md"
CATALOG: Final = str(CATALOGS / "chaos-reuse.toml")
BUCKET, REGION = "pictures", "us-east-1"
LIMIT_S: Final = 300  # of a wait, however busy the machine is
COUNT: Final = 8  # requests that have ended before a loss
SMALL: Final = {"rest": ["classifier", "router", "discriminator", "ledger", "planner"], "worker-1": ["worker"]}


class Section(NamedTuple):
    """The blocks of a section of the page."""

    commands: list[str]
    seen: list[list[str]]  # lines that `pochade doctor` prints


def section(title: str) -> Section:
    """Return the blocks of the section with this title."""
    (text,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S)
    blocks = {kind: re.findall(rf"^```{kind}\n(.*?)^```", text, re.M | re.S) for kind in ("bash", "text")}
    return Section(blocks["bash"], [block.splitlines() for block in blocks["text"]])


def without_numbers(line: str) -> str:
    """Return a line with one space between words, and 0 for each number, address or id of a collection."""
    return re.sub(r"\d+", "0", " ".join(line.split()))


class Drill(Pipeline):
    """A deployment, and an operator's shell beside it."""

    def variables(self) -> dict[str, str]:
        """The options of this deployment's processes as variables, so that the page's commands need no options."""
        pairs = [pair.split("=", 1) for pair in self._options[3::2]]
        named = {PREFIX + key.upper().replace(".", "__"): value for key, value in pairs}
        return {**named, f"{PREFIX}HOME": str(self.settings.home), "STORE": self.settings.store.s3_endpoint_url}

    def shell(self, block: str) -> "subprocess.CompletedProcess[str]":
        """Run a block as it stands; it ends at the first error."""
        path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {**os.environ, **self.variables(), "PATH": path}
        ran = subprocess.run(
            ["bash", "-eu", "-c", block], cwd=self.settings.home, env=environment, capture_output=True, text=True,
            timeout=300, check=False,
        )  # fmt: skip
        print(f"$ {block}{ran.stdout}{ran.stderr}")
        return ran

    def mended(self, block: str) -> str:
        """Run a block that must succeed; return its output, with what it says on standard error."""
        ran = self.shell(block)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout + ran.stderr

    def counts(self, block: str) -> dict[str, str]:
        """Return the last row of the table that a block prints, by its columns."""
        lines = [line.split("\t") for line in self.mended(block).splitlines() if "\t" in line]
        return dict(zip(lines[0], lines[-1], strict=True))

    def doctor(self) -> list[str]:
        """Return the lines of `pochade doctor`, without numbers."""
        said = self.shell("pochade doctor || true\n").stdout.replace(str(self.settings.home), "HOME")
        return [without_numbers(line) for line in said.splitlines()]

    def sees(self, lines: list[str]) -> None:
        """Wait until doctor says these lines of the page."""
        wanted = [without_numbers(line) for line in lines]

        def are_said() -> bool:
            said = self.doctor()
            return all(any(line.startswith(each) for line in said) for each in wanted)

        self.until(are_said, f"doctor says {wanted}")

    def says_ok_of(self, *checks: str) -> None:
        """Wait until doctor says ok of these checks."""
        self.until(
            lambda: (
                set(checks) <= {check for line in self.doctor() for check in checks if line.startswith(f"ok {check} ")}
            ),
            f"ok of {checks}",
        )

    def asked(self, count: int, word: str) -> list[str]:
        """Ask for images of prompts that are not similar; the ids."""
        ids = [new_request_id() for _ in range(count)]
        for n, request_id in enumerate(ids):
            self.ask_again(request_id, f"{word} {n}")
        return ids

    def ask_again(self, request_id: str, prompt: str) -> None:
        """Send a request with this id."""
        request = GenerateRequest(
            request_id=request_id,
            prompt=prompt,
            created_ms=now_ms(),
            tenant="ann",
            options=GenerateOptions(reuse="own"),
        )
        self.write(encode(request), request_id.encode())

    def versions(self) -> dict[str, float]:
        """Return the plan that each role obeys, by its own metrics."""
        found = {}
        for name in self._roles:
            metrics = ask(re.findall(r"health and metrics on (\S+)/livez", self.log(name))[-1] + "/metrics")[1]
            for said in re.findall(r"^pochade_plan_version\{[^}]*\} (\S+)$", metrics, re.M):
                found[name] = float(said)
        return found

    def holds(self) -> None:
        """Assert that nothing was lost or doubled, and every image can be read."""
        self.mended("pochade audit\n")


@pytest.fixture(scope="module", autouse=True)
def patience() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waiting, "PATIENCE_S", LIMIT_S)
        for module, limit in ((embedded, "READY_LIMIT_S"), (brokers, "READY_LIMIT_S"), (forkserver, "START_TIMEOUT_S")):
            patch.setattr(module, limit, LIMIT_S)
        yield


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        set_up_credentials(patch)
        with s3_server(BUCKET) as url:
            yield url


@pytest.fixture(scope="module")
def settings(new_home: Callable[[], pathlib.Path], server: str) -> Iterator[Settings]:
    settings = load(
        {
            "home": new_home(), "catalog": CATALOG, "kafka": {"prefix": "restore", "session_timeout_ms": 3000},
            "planner": {"policy": "nirvana"}, "vectors": {"url": "lite"},
            "store": {"url": f"s3://{BUCKET}/run", "s3_endpoint_url": server, "s3_region": REGION},
        }
    )  # fmt: skip
    try:
        embedded.ensure(settings)
        lite_server.ensure(settings)
        create_topics(settings, ["light", "heavy"])
        yield settings
    finally:
        lite_server.stop(settings)
        embedded.stop(settings)


def drill_on(settings: Settings, logs: pathlib.Path) -> Drill:
    """A deployment that is not started yet."""
    store = settings.store.model_dump(include={"url", "s3_endpoint_url", "s3_region"})
    extra = ["vectors.url=lite", *(f"store.{key}={value}" for key, value in store.items())]
    return Drill(settings, logs, catalog=CATALOG, extra=extra, roles={**ROLES, "indexer": ["indexer"]})


@pytest.fixture(scope="module")
def drill(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drill]:
    drill = drill_on(settings, tmp_path_factory.mktemp("logs"))
    try:
        drill.start()
        drill.completed(drill.asked(COUNT, "hearts"))
        drill.until(lambda: rows(drill) >= COUNT, "rows of the first images")
        yield drill
    finally:
        drill.close()


def rows(drill: Drill) -> int:
    """Rows of the index, by the command."""
    found = re.search(r"(\d+) rows", drill.mended("pochade reuse status\n"))
    return int(found[1]) if found else 0


def test_the_memory_of_the_planner(drill: Drill, settings: Settings) -> None:
    page = section("The memory of the planner")
    before = drill.plans[-1][1].version
    drill.kill("planner")
    admin, name = AdminClient(client_config(settings)), topic_name(settings, PLAN)
    admin.delete_topics([name])[name].result(PATIENCE_S)
    drill.sees(page.seen[0])
    drill.completed(drill.asked(4, "trees"))  # by the plan that roles have

    assert f"{name}" in drill.mended(page.commands[0])
    drill.heal()
    drill.until(
        lambda: bool(drill.versions()) and min(drill.versions().values()) > before, "a newer plan, obeyed by all"
    )
    assert f"the topic held no plan, though workers obey plan {before}" in drill.log("planner")
    history = drill.mended("pochade plan history\n").splitlines()
    assert int(history[1].split("\t")[0]) == before + 1, "earlier plans are gone"
    drill.says_ok_of("topics", "plan", "planner")
    drill.completed(drill.asked(4, "moons"))
    drill.holds()


def test_the_vector_store(drill: Drill, settings: Settings) -> None:
    page = section("The vector store")
    known = rows(drill)
    running = lite.running(settings)
    assert running is not None
    assert running.process is not None
    os.kill(running.process.pid, signal.SIGKILL)
    poll_until(lambda: lite.running(settings) is None, "the vector store is dead")
    for file in lite.vectors_home(settings).glob(f"{lite_server.ROWS}*"):
        shutil.rmtree(file) if file.is_dir() else file.unlink()
    drill.sees(page.seen[0])
    drill.completed(drill.asked(2, "boats"))  # from noise

    drill.mended(page.commands[0])
    drill.sees(page.seen[1])
    found = drill.counts(page.commands[1])
    assert int(found["rows"]) == int(found["latents"]) >= known
    assert (found["gone"], found["unlisted"]) == ("0", "0")
    drill.says_ok_of("vectors", "index", "missing rows")
    assert rows(drill) >= known
    drill.holds()


def test_the_list_of_the_object_store(drill: Drill, monkeypatch: pytest.MonkeyPatch) -> None:
    page = section("The list of the object store")
    before = drill.counts("pochade reuse rebuild\n")
    with monkeypatch.context() as patch:
        patch.setattr(S3Backend, "list_objects", lambda *_about, **_more: (set(), set(), False, None))
        patch.setattr(S3Backend, "list_objects_v2", lambda *_about, **_more: (set(), False, None))
        assert drill.counts("pochade gc --dry-run\n")["count"] == "0", "it finds nothing"
        told = drill.mended(page.commands[0])
        found = dict(zip(*(line.split("\t") for line in told.splitlines()[:2]), strict=True))
        assert found == {**before, "unlisted": before["latents"]}, "nothing of the index is lost"
        assert "the promise holds" in told, "every image can be read"
        drill.completed(drill.asked(2, "fish"))
    assert drill.counts("pochade reuse rebuild\n")["unlisted"] == "0"


def test_the_objects_of_the_object_store(drill: Drill, settings: Settings) -> None:
    page = section("The objects of the object store")
    images = {result.image_uri for result in drill.results}
    latents = drill.counts("pochade reuse rebuild\n")["latents"]
    bucket = boto3.resource("s3", endpoint_url=settings.store.s3_endpoint_url, region_name=REGION).Bucket(BUCKET)
    bucket.objects.all().delete()
    bucket.delete()
    drill.sees(page.seen[0])
    ids = drill.asked(4, "cats")
    drill.until(lambda: any(beat.state == "painting" for _, beat in list(drill.heartbeats.values())), "a job in hand")
    assert drill.ended(ids) == 0, "they wait"

    drill.mended(page.commands[0])
    drill.completed(ids)
    told = drill.mended(page.commands[1])
    assert f"{len(images)} images are not what their results say" in told, "what was lost, as a number"
    found = dict(zip(*[line.split("\t") for line in told.splitlines() if "\t" in line][-2:], strict=True))
    assert (found["gone"], int(found["latents"])) == (latents, len(ids))
    first = next(result for result in drill.results if result.image_uri in images and not result.reused)
    drill.mended(f"pochade again {first.request_id} --wait\n")
    drill.mended(f"pochade audit --since {since_s(ids, drill)}s\n")


def since_s(ids: list[str], drill: Drill) -> int:
    """Seconds since the first of these was asked for; audits from then on know of no image that was lost."""
    created = min(result.created_ms for result in drill.results if result.request_id in ids)
    return (now_ms() - created) // 1000 + 1


def test_the_disk_of_the_only_broker(drill: Drill, settings: Settings, tmp_path: pathlib.Path) -> None:
    page = section("The disk of the only broker")
    ended = drill.results[-1].request_id
    for worker in ("worker-1", "worker-2"):
        drill.kill(worker)
    lost = drill.asked(3, "houses")
    known = address.record(settings)
    assert known is not None
    assert known.broker is not None
    os.kill(known.broker.pid, signal.SIGKILL)  # type: ignore[union-attr]  a process, no container
    poll_until(lambda: address.find(settings) is None, "the broker is dead")
    shutil.rmtree(address.kafka_home(settings) / "data")
    drill.sees(page.seen[0])
    drill.close()

    told = drill.mended(page.commands[0])
    assert "is gone, so it begins empty: requests without a result are lost" in told
    stored = list(open_store(settings).list(now_ms() + 1000))
    assert f"orphans\t{len(stored)}\t" in told, "images that no record names any more, as a number"
    again = drill_on(settings, tmp_path)
    try:
        again.start()
        for request_id in (*lost, ended):
            again.ask_again(request_id, "a house")
        again.completed([*lost, ended])
        again.says_ok_of("broker", "topics", "plan")
        again.holds()
    finally:
        again.close()


@pytest.fixture
def cluster(new_home: Callable[[], pathlib.Path]) -> Iterator[BrokerCluster]:
    with running_cluster(new_home) as running:
        yield running


def test_the_disk_of_one_broker_of_three(cluster: BrokerCluster, tmp_path: pathlib.Path) -> None:
    page = section("The disk of one broker of three")
    settings = on(cluster, tmp_path)
    create_topics(settings, ["light", "heavy"])
    poll_until(cluster.is_in_sync, "every copy in sync")
    logs = tmp_path / "logs"
    logs.mkdir()
    drill = Drill(
        settings, logs, extra=[f"kafka.bootstrap_servers={cluster.bootstrap}"], roles=SMALL, catalog="profile"
    )
    try:
        drill.start()
        before = drill.completed(drill.asked(COUNT, "hearts"))
        ids = drill.asked(COUNT, "stars")
        poll_until(lambda: all(cluster.can_lose(node) for node in cluster.nodes), "every copy in sync")
        lost = cluster.controller()  # the one that hurts most
        cluster.kill(lost)
        poll_until(lambda: not cluster.is_alive(lost), "the broker is dead")
        shutil.rmtree(cluster.folder(lost) / "data")
        drill.sees(page.seen[0])
        drill.completed([*ids, *drill.asked(COUNT, "trees")])

        cluster.start(lost)  # which formats an empty disk by Kafka's own tool
        poll_until(cluster.is_in_sync, "every copy in sync again")
        drill.says_ok_of("copies")
        for other in set(cluster.nodes) - {lost}:
            poll_until(lambda other=other: cluster.can_lose(other), "every record on the new disk, too")
        all_completed(before)
        drill.completed(drill.asked(2, "moons"))
        drill.holds()
    finally:
        drill.close()


def test_every_row_of_the_page_names_its_test_and_its_section() -> None:
    rows = re.findall(r"^\|.*`(test_\w+)` \|$", PAGE.read_text(), re.M)
    assert rows == [name for name in rows if name in globals()]
    assert {name.removeprefix("test_").replace("_", " ") for name in rows} == {
        title.lower() for title in re.findall(r"^## (The .+)$", PAGE.read_text(), re.M)
    }
