"""An upgrade and the way back: roles of an earlier release and of this one, in turn and side by side, under load."""

import contextlib
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from importlib.metadata import distributions

import pytest
import tomlkit
from packaging.utils import canonicalize_name
from PIL import Image

from replay.local.processes import RoleProcess
from replay.verify.audit.figures import verdict
from replay.verify.audit.reading import audit
from schemas.ids import new_request_id
from schemas.messages import GenerateOptions, GenerateRequest, Outcome, Plan, Status
from schemas.record import Delivered
from streams.clock import now_ms
from streams.codec.schema_topic import announce
from streams.operator.client import RequestClient
from streams.settings import Settings, load
from tests.integration.pipeline import Pipeline
from tests.integration.waiting import ask
from tests.nightly.official_clients import KEPT
from tests.paths import CATALOGS, ROOT
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.broker, pytest.mark.timeout(1200)]

BEFORE = "fdb8fdba73bb7e4a0cbb7fe1027696d65ab74e01"  # the last commit with the folders of release 0.1
COMMIT = os.environ.get("UPGRADE_FROM", BEFORE)
SIGNING = "8f7653f51b4bae267e8f927ac3244c76dc6f4606"  # the first commit that says how images are made, and signs them
START = "from streams.cli import main; main(prog_name='pochade')"

APART_S = 5.0  # between two roles that end
BESIDE_S = float(os.environ.get("UPGRADE_BESIDE_S", "60"))  # that both releases serve side by side
PAUSED_S = float(os.environ.get("UPGRADE_PAUSED_S", "1800"))  # that an upgrade stands still half-way
RATE = 4.0  # requests per second
CROWD = 40  # requests at once, so that jobs wait on their topics
SEEN_S = 65.0  # a planner that begins reads the demand of the last minute; older demand it knows from a plan alone
REMEMBERED_S = 600  # that every release remembers: the least default of joint's `remember_s` so far

# In the order that a rolling upgrade has: the planner first, the classifier last.
ROLES = ("planner", "worker-1", "worker-2", "discriminator", "ledger", "router", "classifier")
COUNTED = ("discriminator", "ledger", "router", "classifier")  # roles that count the records that they have handled
LACK_OF_CAPACITY = {"overloaded", "shed"}  # codes of requests that may be rejected here
PROMPT = "a red heart"
HEAVY = "latency_ms = { 1 = 200, 2 = 243, 4 = 413, 8 = 763 }"
SLOWER = "latency_ms = { 1 = 400, 2 = 486, 4 = 826, 8 = 1526 }"
STARTING = {"hadis": ["--parameter", "cache=2"], "joint": []}  # policy -> how an operator pins it


@dataclass(frozen=True, slots=True)
class Release:
    """The code of one release; the same virtual environment serves all, and for each what it alone needs."""

    name: str
    tree: pathlib.Path
    needs: pathlib.Path = ROOT  # packages beside it

    def command(self, config: pathlib.Path, *arguments: str) -> tuple[str, ...]:
        """`pochade` of this release; neither the working directory nor the installed release gets in before it."""
        python = ("env", f"PYTHONPATH={self.tree}{os.pathsep}{self.needs}", sys.executable, "-P", "-c", START)
        return (*python, "--config", str(config), *arguments)

    def pochade(self, config: pathlib.Path, *arguments: str) -> str:
        """What a command of this release prints."""
        done = subprocess.run(self.command(config, *arguments), capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 0, f"{self.name} {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    def refused(self, config: pathlib.Path, *arguments: str) -> str:
        """What a command of this release prints that fails."""
        done = subprocess.run(self.command(config, *arguments), capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 1, f"{self.name} {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stderr


NEW = Release("new", ROOT)


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """The earlier release, out of git."""
    return taken_out(COMMIT, tmp_path_factory.mktemp("release"))


def taken_out(commit: str, folder: pathlib.Path) -> Release:
    """The release of a commit in a folder; skips where git does not have it."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed, which has the earlier release")
    packed = folder / "tree.tar"
    archive = ["git", "-C", str(ROOT), "archive", f"--output={packed}", commit]
    done = subprocess.run(archive, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"git has no commit {commit} here (a shallow clone?): {done.stderr.strip()}")
    tree = folder / "tree"
    with tarfile.open(packed) as tar:
        tar.extractall(tree, filter="data")
    packed.unlink()
    name_commands(tree)
    found = Release("old", tree, needs_of(tree, KEPT / f"release-{commit}"))
    for release in (found, NEW):
        where = "import streams; print(streams.__file__)"
        python = [*release.command(folder)[:4], "-c", where]
        at = subprocess.run(python, capture_output=True, text=True, check=True, cwd=ROOT).stdout
        assert pathlib.Path(at.strip()).is_relative_to(release.tree), f"{release.name} runs {at}"
    return found


def needs_of(tree: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """The packages that a release's lock names and this environment lacks, in a folder (fetched once)."""
    if not (folder / "installed").exists():
        locked = re.findall(r"^([\w.-]+)==(\S+) \\$", (tree / "requirements.lock").read_text(), re.MULTILINE)
        here = {canonicalize_name(each.metadata["Name"]) for each in distributions()}
        lacking = [f"{name}=={version}" for name, version in locked if canonicalize_name(name) not in here]
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder)]
        subprocess.run([*pip, *lacking], check=True) if lacking else folder.mkdir(parents=True)
        (folder / "installed").touch()
    return folder


def name_commands(tree: pathlib.Path) -> None:
    """Write what an installation of this tree would: which function each command is."""
    project = tomllib.loads((tree / "pyproject.toml").read_text())["project"]
    info = tree / f"{project['name']}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    commands = "".join(f"{name} = {at}\n" for name, at in project["entry-points"]["pochade.commands"].items())
    (info / "entry_points.txt").write_text(f"[pochade.commands]\n{commands}")


def configuration(home: pathlib.Path, prefix: str, catalog: pathlib.Path, **more: Mapping[str, str]) -> pathlib.Path:
    """One file of settings for both releases, which have these under the same names; `more`: other sections."""
    content = {
        "home": str(home),
        "catalog": str(catalog),
        "kafka": {"prefix": prefix, "session_timeout_ms": 3000},
        "planner": {"policy": "random-split", "period_ms": 2000, "slo_s": 5},
        **more,
    }
    path = home / f"{prefix}.toml"
    path.write_text(tomlkit.dumps(content))
    return path


@pytest.fixture(scope="module")
def home(old: Release, new_home: Callable[[], pathlib.Path]) -> Iterator[pathlib.Path]:
    """A home whose broker the earlier release starts, and this one stops."""
    made = new_home()
    catalog = made / "slower.toml"
    text = (CATALOGS / "profile.toml").read_text()
    assert HEAVY in text
    catalog.write_text(text.replace(HEAVY, SLOWER))
    config = configuration(made, "first", catalog)
    try:
        old.pochade(config, "up")
        yield made
    finally:
        NEW.pochade(config, "down")


class Deployment(Pipeline):
    """Processes of two releases on the same topics; each is called by its release and its role: old-worker-1."""

    def __init__(
        self, settings: Settings, config: pathlib.Path, logs: pathlib.Path, releases: Sequence[Release]
    ) -> None:
        super().__init__(settings, logs, roles={}, is_forked=False)
        self.config = config
        self._releases = {release.name: release for release in releases}
        self.ended_with: list[tuple[str, int]] = []

    def process(self, name: str) -> RoleProcess:
        release, _, role = name.partition("-")
        own = ["--set", f"worker.id={name}"] if role.startswith("worker") else []
        command = self._releases[release].command(self.config, *own, "serve", role.partition("-")[0])
        return RoleProcess(name=name, command=command)

    def running(self) -> list[str]:
        """The names of all processes that were started and not told to end; fails when one has ended by itself."""
        dead = {name: process.poll() for name, process in self._processes.items() if process.poll() is not None}
        assert not dead, f"ended by themselves: {dead}\n{self.tails()}"
        return list(self._processes)

    def is_ready(self) -> bool:
        """Whether every running process says so, and every running worker serves what the newest plan allocates."""
        running = self.running()
        workers = {name for name in running if "worker" in name}
        with self._lock:
            serving = {
                name: beat.variant
                for name, (_, beat) in self.heartbeats.items()
                if name in workers and beat.state in ("ready", "painting")
            }
            obeyed = bool(self.plans) and self.plans[-1][1].allocation == serving
        return obeyed and set(serving) == workers and all(self._says_ready(name) for name in running)

    def join(self, release: str) -> None:
        """Start every role of a release, its planner first, and wait until all that runs is ready."""
        begun, version = time.monotonic(), self.version()
        self.start_role(f"{release}-planner")
        self.until(lambda: self.leads(release), f"the {release} planner leads")
        for role in ROLES[1:]:
            self.start_role(f"{release}-{role}")
        self.until(self.is_ready, f"all roles of {release} ready: {self.running()}")
        self.until(lambda: self.version() > version, f"a plan of the {release} planner")
        print(f"{release} joined within {time.monotonic() - begun:.0f} s, plan {self.version()}")

    def leads(self, release: str) -> bool:
        """Whether the newest planner process of a release said last that it leads."""
        told = re.findall(r"health and metrics on|this planner (?:leads|stands by)", self.log(f"{release}-planner"))
        return bool(told) and told[-1] == "this planner leads"

    def log(self, name: str) -> str:
        path = self._logs / f"{name}.log"
        return path.read_text() if path.exists() else ""

    def version(self) -> int:
        with self._lock:
            return self.plans[-1][1].version if self.plans else 0

    def plan(self) -> Plan:
        with self._lock:
            return self.plans[-1][1]

    def handled(self, name: str) -> float:
        """How many records a running process says that it has handled."""
        addresses = re.findall(r"health and metrics on (\S+)/livez", self.log(name))
        counts = re.findall(r"^pochade_records_total\{.*\} (\S+)$", ask(f"{addresses[-1]}/metrics")[1], re.MULTILINE)
        return sum(map(float, counts))

    def leave(self, names: Sequence[str], requests: "Requests") -> None:
        """SIGTERM to one after the other, with requests open."""
        leaving: list[subprocess.Popen[bytes]] = []
        for name in names:
            if leaving:
                time.sleep(APART_S)
            leaving.append(self.end(name, requests))
        for process in leaving:
            process.wait(PATIENCE_S)
        self.ended_with += [(name, process.returncode) for name, process in zip(names, leaving, strict=True)]

    def end(self, name: str, requests: "Requests") -> subprocess.Popen[bytes]:
        """SIGTERM to one."""
        still = requests.open()
        assert still > 0, f"no request was open when {name} was ended"
        print(f"SIGTERM to {name}: {still} requests open, plan {self.version()}")
        return self.terminate(name)

    def terminate(self, name: str) -> subprocess.Popen[bytes]:
        """SIGTERM to one, whatever is open."""
        process = self._processes.pop(name)
        process.terminate()
        return process


class Requests(threading.Thread):
    """Requests of every kind at a rate, until told to stop."""

    def __init__(self, deployment: Deployment) -> None:
        super().__init__(daemon=True)
        self._deployment, self._dice = deployment, random.Random(22)
        self._client = RequestClient(deployment.settings, deployment.producer)
        self.ending = threading.Event()
        self._lock = threading.Lock()
        self._acks: dict[str, Future[Delivered]] = {}

    def run(self) -> None:
        announce(self._deployment.settings, self._deployment.producer, (GenerateRequest, Outcome))  # as commands do
        begun_s, sent = time.monotonic(), 0
        while not self.ending.wait(max(0.0, begun_s + sent / RATE - time.monotonic())):
            name = self.send()
            sent += 1
            if self._dice.random() < 0.03:
                self._client.cancel(name, "not wanted any more")

    def send(self) -> str:
        """One request; some have a deadline that can be met, some one that may not be."""
        with self._lock:
            now, dice = now_ms(), self._dice
            limit_ms = dice.choices([None, 60_000, 3000], [0.6, 0.3, 0.1])[0]
            request = GenerateRequest(
                request_id=new_request_id(),
                prompt=f"prompt {len(self._acks)}",
                created_ms=now,
                deadline_ms=now + limit_ms if limit_ms else None,
                tier=dice.choices(["standard", "interactive", "batch"], [0.6, 0.2, 0.2])[0],
                quality=dice.choices(["auto", "low", "high"], [0.8, 0.1, 0.1])[0],
                options=GenerateOptions(n=dice.choices([1, 2], [0.9, 0.1])[0], steps=dice.choice((None, None, 6))),
            )
            self._acks[request.request_id] = self._client.submit(request)
            return request.request_id

    def crowd(self) -> None:
        """Many requests at once."""
        for _ in range(CROWD):
            self.send()

    def by_command(self, release: Release) -> None:
        """A request that a release's command makes."""
        name = release.pochade(self._deployment.config, "submit", "a red circle").split()[-1]
        with self._lock:
            self._acks[name] = Future()
            self._acks[name].set_result(Delivered(partition=0, offset=0))

    def asked(self) -> list[str]:
        with self._lock:
            return list(self._acks)

    def open(self) -> int:
        """How many have no result yet."""
        asked = self.asked()
        return len(asked) - self._deployment.ended(asked)

    def finish(self) -> list[str]:
        """Ask for no more; the ids of all, which a broker has acknowledged and which have all ended."""
        self.ending.set()
        self.join()
        for acknowledged in self._acks.values():
            acknowledged.result(PATIENCE_S)
        asked = self.asked()
        self._deployment.until(lambda: self._deployment.ended(asked) == len(asked), lambda: f"{self.open()} are open")
        return asked


def forgotten(before: Plan, after: Plan) -> list[str]:
    """What the policy noted in one plan, is not out of date, and lacks in a later one."""
    told, known = json.loads(before.memory), json.loads(after.memory)
    lost = [f"plan for {key}" for key in told.get("kept", {}) if key not in known.get("kept", {})]
    rises = {at_s: (peak, cost) for at_s, _, peak, cost in known.get("rises", [])}
    for at_s, _, peak, cost in told.get("rises", []):
        is_young = after.created_ms / 1000 - at_s < REMEMBERED_S - 1
        if is_young and not (at_s in rises and rises[at_s] >= (peak, cost)):
            lost.append(f"rise of {at_s}")
    return lost


@contextlib.contextmanager
def deployment(
    first: Release, old: Release, home: pathlib.Path, logs: pathlib.Path, policy: str
) -> Iterator[tuple[Deployment, Requests]]:
    """One release alone, with requests coming and a policy pinned whose memory is not empty; audited in the end."""
    prefix = f"upgrade-{policy}-{new_request_id()[-6:].lower()}"
    config = configuration(home, prefix, home / "slower.toml")
    settings = load({"home": home, "catalog": str(home / "slower.toml"), "kafka": {"prefix": prefix}})
    first.pochade(config, "up")
    running = Deployment(settings, config, logs, (old, NEW))
    requests = Requests(running)
    try:
        running._follower.start()
        running.join(first.name)
        first.pochade(config, "plan", "pin", policy, *STARTING[policy])
        running.until(lambda: running.plan().policy == policy, f"a plan of {policy}")
        pinned = running.version()
        requests.start()
        time.sleep(20)
        requests.crowd()
        running.until(lambda: json.loads(running.plan().memory) != {}, lambda: f"a memory in {running.plan()}")
        time.sleep(SEEN_S if policy == "joint" else 0)
        yield running, requests
        asked = requests.finish()
        check(running, asked, pinned, policy)
    finally:
        requests.ending.set()
        running.close()


def check(running: Deployment, asked: Sequence[str], pinned: int, policy: str) -> None:
    """What must hold in the end."""
    found = audit(running.settings, asked=asked)
    named = set(asked)
    ended = [each for each in running.results if each.request_id in named]
    rejected = {each.code for each in ended if each.status == Status.REJECTED}
    plans = [plan for _, plan in running.plans]
    print(f"{len(asked)} requests {running.statuses(list(asked))}, rejected for {rejected}")
    print(f"plans 1 to {plans[-1].version}; memory in the end {plans[-1].memory}")
    print(f"{found.figures}\n{found.images}")
    print("\n".join(complaints(running)))
    repeated = Counter(Counter(each.request_id for each in ended).values())
    assert repeated == {1: len(asked)}, "results of a request"
    assert verdict(found.figures, found.images) is None
    assert (found.figures.open, found.figures.failed, found.figures.dead_letters) == (0, {}, 0)
    assert running.dead_letters == []
    assert rejected <= LACK_OF_CAPACITY
    assert [(name, code) for name, code in running.ended_with if code != 0] == []
    versions = [plan.version for plan in plans]
    assert versions == sorted(set(versions)), "each plan's version is above the one before"
    since = [plan for plan in plans if plan.version >= pinned]
    assert {plan.policy for plan in since} == {policy}, "the operator's order stands"
    lost = {after.version: forgotten(before, after) for before, after in itertools.pairwise(since)}
    assert {version: what for version, what in lost.items() if what} == {}, "what plans have forgotten"


def complaints(running: Deployment) -> list[str]:
    """Kinds of warnings and errors in the logs of all processes, with how often each came."""
    found: Counter[str] = Counter()
    for log in sorted(running._logs.glob("*.log")):
        for line in log.read_text(errors="replace").splitlines():
            if re.search(r"\b(WARNING|ERROR|CRITICAL)\b|^Traceback", line):
                found[f"{log.stem}: {re.sub(r'[0-9]+', '#', line)[:240]}"] += 1
    return [f"{times} x {line}" for line, times in found.most_common()]


def test_a_deployment_that_is_ended_role_by_role_goes_on_with_the_next_release(
    old: Release, home: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with deployment(old, old, home, tmp_path, "joint") as (running, requests):
        requests.crowd()
        running.leave([f"old-{role}" for role in ROLES], requests)
        assert running.running() == []
        requests.by_command(old)
        running.join("new")
        requests.by_command(NEW)


def test_roles_are_replaced_one_by_one(old: Release, home: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with deployment(old, old, home, tmp_path, "hadis") as (running, requests):
        for role in ROLES:
            requests.crowd()
            running.leave([f"old-{role}"], requests)
            running.start_role(f"new-{role}")
            time.sleep(APART_S)
        running.until(running.is_ready, "all roles of the new release ready")


@pytest.mark.parametrize(("first", "joining"), [("old", "new"), ("new", "old")])
def test_both_releases_serve_side_by_side(
    old: Release, home: pathlib.Path, tmp_path: pathlib.Path, first: str, joining: str
) -> None:
    releases = {"old": old, "new": NEW}
    with deployment(releases[first], old, home, tmp_path, "joint") as (running, requests):
        running.join(joining)
        both_serve(running, requests)
        requests.by_command(releases[first])
        requests.by_command(releases[joining])
        running.leave([f"{first}-{role}" for role in ROLES], requests)


@pytest.mark.timeout(1200 + PAUSED_S)
@pytest.mark.parametrize("leaving", ["old", "new"])
def test_an_upgrade_that_pauses_for_half_an_hour_sets_nothing_aside_whether_it_goes_on_or_is_rolled_back(
    old: Release, home: pathlib.Path, tmp_path: pathlib.Path, leaving: str
) -> None:
    """For three times as long as a role waits for a schema that neither its topic nor a registry has."""
    with deployment(old, old, home, tmp_path, "joint") as (running, requests):
        running.join("new")
        time.sleep(PAUSED_S)
        requests.crowd()
        running.leave([f"{leaving}-{role}" for role in ROLES], requests)


def both_serve(running: Deployment, requests: Requests) -> None:
    """For a minute; each process of both releases has a part in it."""
    flows = [f"{release}-{role}" for release in ("old", "new") for role in COUNTED]
    before, begun_ms = {name: running.handled(name) for name in flows}, now_ms()
    end_s = time.monotonic() + BESIDE_S
    while time.monotonic() < end_s:
        time.sleep(BESIDE_S / 4)
        requests.crowd()
    handled = {name: running.handled(name) - before[name] for name in flows}
    ended = [result for result in running.results if (result.ended_ms or 0) > begun_ms]
    workers = Counter(stage["worker_id"] for result in ended for stage in json.loads(result.path))
    print(f"side by side: records handled {handled}, jobs generated {dict(workers)}")
    assert min(handled.values()) > 0
    assert {name.partition("-")[0] for name in workers} == {"old", "new"}


@dataclass(frozen=True, slots=True)
class MadeImage:
    """An image that a command asked for: its request, who generated it, its file."""

    request_id: str
    worker: str
    file: pathlib.Path

    def pixels(self) -> bytes:
        """All of them, as RGB."""
        with Image.open(self.file) as image:
            return image.convert("RGB").tobytes()


def made_by(running: Deployment, release: Release, *arguments: str) -> MadeImage:
    """Have a release's command ask for an image, and wait for it."""
    told = release.pochade(running.config, *arguments, "--wait", "-o", "json")
    name = json.loads(told)["request_id"]
    (result,) = running.wait_all([name])
    (stage,) = json.loads(result.path)
    return MadeImage(name, stage["worker_id"], pathlib.Path(result.image_uri.removeprefix("file://")))


def test_an_image_is_proven_and_made_again_after_an_upgrade_and_by_each_worker(
    home: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """The tiny models in float32 on the CPU, from the catalog of the release before, signed with the demo's key."""
    signing = taken_out(SIGNING, tmp_path)
    prefix, catalog = f"proof-{new_request_id()[-6:].lower()}", signing.tree / "infra" / "catalogs" / "tiny.toml"
    config = configuration(home, prefix, catalog, receipts={"certificate": "demo"})
    settings = load({"home": home, "catalog": str(catalog), "kafka": {"prefix": prefix}})
    signing.pochade(config, "up")
    running = Deployment(settings, config, tmp_path, (signing, NEW))
    try:
        running._follower.start()
        running.join("old")
        first = made_by(running, signing, "submit", PROMPT, "--model", "heavy")
        for role in ROLES:
            running.terminate(f"old-{role}").wait(PATIENCE_S)
            running.start_role(f"new-{role}")
        running.until(running.is_ready, "all roles of the new release ready")
        second = made_by(running, NEW, "again", first.request_id)
        running.terminate(second.worker).wait(PATIENCE_S)
        third = made_by(running, NEW, "again", first.request_id)
        images = (first, second, third)
        print(f"made by {[each.worker for each in images]}")
        assert [each.worker.partition("-")[0] for each in images] == ["old", "new", "new"]
        assert second.worker != third.worker
        assert {each.pixels() for each in images} == {first.pixels()}
        for each in images:
            said = NEW.pochade(config, "verify", str(each.file), "--prompt", PROMPT)
            assert "file\tas it was signed" in said
            assert f"request_id\t{each.request_id}" in said
            assert "decision_from\tresult on the broker" in said
        flipped = tmp_path / "flipped.png"
        flipped.write_bytes(first.file.read_bytes()[:-20] + bytes(20))
        assert "is damaged" in NEW.refused(config, "verify", str(flipped))
        assert "was not made for the prompt" in NEW.refused(
            config, "verify", str(first.file), "--prompt", "a blue boat"
        )
    finally:
        running.close()
