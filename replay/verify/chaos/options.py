"""The options of a chaos run, and the deployment that follows from them: a home, a broker and topics of its own."""

import datetime
import pathlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from planner.policies import JUDGES_ALL, LOOKUP_PER_REQUEST, PLACES_COMPONENTS, SCALES
from replay.local.deployment import own_deployment
from replay.local.processes import RoleProcess, role_process
from replay.verify.chaos.faults.scaling import SCALER, WORKERS
from replay.verify.chaos.kinds import COMPONENT_KINDS, INDEXER, REUSE_KINDS, ROLES, SCALE_KINDS
from replay.verify.chaos.launching import stallable, stopping_at_points
from replay.verify.chaos.weights.remote import BUCKET
from schemas.errors import PochadeError
from streams.broker import java
from streams.broker.address import kafka_home
from streams.settings import Settings, Vectors, WorkerComponentSettings

ENGINES = {"profile": ("chaos", "chaos"), "diffusers": ("diffusers", "tiny")}  # -> engine, catalog
REUSE_CATALOG = "chaos-reuse"  # of a run whose images begin from stored ones
SESSION_MS = 3000
# above the longest job, frozen or without a store for a while; a request that hangs costs a worker as much, five times
JOB_LIMITS_S = {"profile": 30.0, "diffusers": 240.0}
DRAIN_S = 10.0
RATES = {"profile": 8.0, "diffusers": 2.0}  # per second
COMPONENT_RATE = 1.0  # a worker that is killed starts again after 10 s, on a busy machine after a minute
# bytes of each tier's budget, of weight files: two bases of the tiny family of three, one, and two with combinations
BUDGETS = {"volume_bytes": 9_000_000, "host_bytes": 5_000_000, "device_bytes": 24_000_000}
SCALE_RATE = 4.0  # three times that in bursts: 3 workers of the catalog generate 15 a second in full
SCALE_PERIOD_S = 0.2  # of decisions about the fleet, so that it grows and shrinks within a burst and the pause after it
START_S = 2.0  # until a worker of the engine `profile` is ready
REUSE_RATE = 4.0  # 3 workers of its catalog generate 5 a second in full


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosOptions:
    """The options of `pochade chaos`."""

    requests: int
    faults: int
    seed: int
    engine: str
    rate_rps: float | None
    workers: int
    brokers: int = 1
    policy: str | None
    only: tuple[str, ...] = ()  # kinds of faults; none: all
    report: pathlib.Path | None
    is_kept: bool
    with_reuse: bool = False  # a vector store, an index writer, and prompts that repeat
    is_scaled: bool = False  # workers come and go as the plan asks, under `pochade scale`
    with_components: bool = False  # a remote, a volume, and requests that name bases, adapters and controls

    def __post_init__(self) -> None:
        if self.reuses and self.engine != "profile":
            raise PochadeError(f"--reuse needs --engine profile, whose images show what they began from: {self.engine}")
        if self.moves_components and self.engine != "diffusers":
            raise PochadeError(f"--components needs --engine diffusers, which has weights to move: {self.engine}")
        if self.scales and (self.engine != "profile" or self.reuses):
            raise PochadeError("--scale needs --engine profile, and cannot be combined with --reuse")

    @property
    def scales(self) -> bool:
        """Whether workers come and go as the plan asks; asking for a fault of that is asking for it."""
        return self.is_scaled or any(kind in SCALE_KINDS for kind in self.only)

    @property
    def moves_components(self) -> bool:
        """Whether requests name components; asking for a fault of them is asking for it."""
        return self.with_components or any(kind in COMPONENT_KINDS for kind in self.only)

    @property
    def reuses(self) -> bool:
        """Whether images begin from stored ones; asking for a fault of them is asking for it."""
        return self.with_reuse or any(kind in REUSE_KINDS for kind in self.only)

    @property
    def rate(self) -> float:
        """Rate of requests per second."""
        return self.rate_rps or self._usual_rate()

    def _usual_rate(self) -> float:
        if self.scales:
            return SCALE_RATE
        if self.moves_components:
            return COMPONENT_RATE
        return REUSE_RATE if self.reuses else RATES[self.engine]

    @property
    def span_ms(self) -> float:
        """Time from the first request to the last, in ms."""
        return 1000 * self.requests / self.rate

    @property
    def worker_ids(self) -> list[str]:
        """Ids of the workers that are there from the beginning: none where they come and go."""
        return [] if self.scales else [f"{WORKERS}-{number}" for number in range(1, self.workers + 1)]

    def command(self, home: pathlib.Path) -> str:
        """The command that runs the same again."""
        rate = "" if self.rate_rps is None else f" --rate {self.rate_rps:g}"
        only = "".join(f" --only {kind}" for kind in self.only)
        brokers = "" if self.brokers == 1 else f" --brokers {self.brokers}"
        policy = "" if self.policy is None else f" --policy {self.policy}"
        reuse = " --reuse" * self.with_reuse + " --components" * self.with_components + " --scale" * self.is_scaled
        return (
            f"pochade --home {home} chaos --requests {self.requests} --faults {self.faults} --seed {self.seed} "
            f"--engine {self.engine} --workers {self.workers}{brokers}{policy}{reuse}{only}{rate}"
        )


def run_name(options: ChaosOptions) -> str:
    """Name of a run that begins now."""
    return f"{datetime.datetime.fromtimestamp(time.time(), datetime.UTC):%m%d-%H%M%S}-{options.seed}"


def deployment_of(settings: Settings, options: ChaosOptions, name: str) -> Settings:
    """Return the settings of a run in HOME/chaos/NAME with a broker of its own, which will be killed."""
    home = settings.home.expanduser().resolve() / "chaos" / name
    engine, catalog = ENGINES[options.engine]
    if options.reuses:
        catalog = REUSE_CATALOG
    kafka = settings.kafka.model_copy(update={"bootstrap_servers": "", "session_timeout_ms": SESSION_MS})
    own = own_deployment(
        settings.model_copy(update={"home": home, "kafka": kafka, "shutdown_timeout_s": DRAIN_S}),
        f"chaos-{options.seed}",
        catalog=catalog,
        engine=engine,
        policy=options.policy or _policy(options),
        workers=options.workers + 2,  # guests come
    )
    worker: dict[str, Any] = {"job_timeout_s": JOB_LIMITS_S[options.engine]}
    if options.moves_components:
        places = {"remote": f"s3://{BUCKET}", "volume": str(home / "volume")}
        worker["components"] = WorkerComponentSettings.model_validate(places | BUDGETS)
    changes = {
        "worker": own.worker.model_copy(update=worker),
        "store": own.store.model_copy(update={"folder": str(home / "images"), "url": ""}),
        "vectors": Vectors(url="lite" if options.reuses else ""),
    }
    if options.scales:
        changes["planner"] = own.planner.model_copy(update=_scaled(own, options))
    return own.model_copy(update=changes)


def _scaled(own: Settings, options: ChaosOptions) -> dict[str, Any]:
    """The planner's settings for a fleet that grows and shrinks within seconds, up to the workers of the run."""
    scale = {"max_workers": options.workers, "period_s": SCALE_PERIOD_S, "start_s": START_S}
    return {"scale": own.planner.scale.model_copy(update=scale), "period_ms": round(1000 * SCALE_PERIOD_S)}


def _policy(options: ChaosOptions) -> str:
    if options.moves_components:
        return PLACES_COMPONENTS
    if options.scales:
        return SCALES
    return LOOKUP_PER_REQUEST if options.reuses else JUDGES_ALL


def from_remote(own: Settings, endpoint_url: str) -> Settings:
    """The settings of a run whose components come from the server at a URL."""
    return own.model_copy(update={"store": own.store.model_copy(update={"s3_endpoint_url": endpoint_url})})


def on_cluster(own: Settings, bootstrap: str) -> Settings:
    """The settings of a run on several brokers of its own, which are a configured cluster to its roles."""
    return own.model_copy(update={"kafka": own.kafka.model_copy(update={"bootstrap_servers": bootstrap})})


def share_jars(settings: Settings, own: Settings) -> None:
    """Kafka's jars of the usual home, if they are there, so that they are not fetched again."""
    jars, wanted = java.jars_folder(kafka_home(settings)), kafka_home(own)
    wanted.mkdir(parents=True, exist_ok=True)
    link = wanted / jars.name
    if jars.is_dir() and not link.exists():
        link.symlink_to(jars)


def processes_of(
    mark: pathlib.Path,
    options: Sequence[str],
    workers: Sequence[str],
    *,
    with_twins: bool = False,
    with_indexer: bool = False,
    points: pathlib.Path | None = None,
    is_scaled: bool = False,
) -> list[RoleProcess]:
    """Return one process per role, so that each can die alone; their store hangs while the file `mark` exists.

    `with_twins`: two processes of each role; `with_indexer`: an index writer among them; `points`: the folder of
    points at which faults stop workers, None without them; `is_scaled`: a supervisor starts and ends workers, too.
    """
    names = (*ROLES, INDEXER) if with_indexer else ROLES
    roles = [role_process(role, [role], options, {}) for role in names]
    roles += [role_process(f"{role}-2", [role], options, {}) for role in names if with_twins]
    worker_processes = [role_process(worker, ["worker"], options, {"worker.id": worker}) for worker in workers]
    if is_scaled:
        command = (*role_process(SCALER, [], options, {}).command[:-1], "scale", "--name", WORKERS)
        worker_processes.append(RoleProcess(name=SCALER, command=command))
    if points is not None:
        worker_processes = [stopping_at_points(each, points) for each in worker_processes]
    return [stallable(each, mark) for each in (*roles, *worker_processes)]
