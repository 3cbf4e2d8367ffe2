"""Settings of a deployment, from flags, then `POCHADE_*`, then one TOML file; an unknown key anywhere is an error.

`POCHADE_KAFKA__BOOTSTRAP_SERVERS=host:9092` sets `[kafka] bootstrap_servers`; `POCHADE_CONFIG` names the TOML file
(default: `pochade.toml` in the working directory, if there is one).
"""

import json
import os
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeGuard, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from schemas.errors import PochadeError, Unknown
from schemas.messages import GenerateOptions
from schemas.option_fields import options_of
from streams.security.secrets import quoted

PREFIX = "POCHADE_"
LOOPBACK = ("127.0.0.1", "::1", "localhost")  # hosts that only this machine reaches
PROCESS_VARIABLES = {"POCHADE_CONFIG"}  # read here, not settings


class InvalidSettings(PochadeError):
    """A setting that is unknown or out of range."""


class Section(BaseModel):
    """One group of settings; unknown keys are refused, and values cannot change."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


T = TypeVar("T")


def _tabled(value: Any) -> Any:
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, Mapping):
        raise PydanticCustomError("table", 'must be a table: {"NAME": "VALUE"} in JSON, or one --set KEY.NAME=VALUE')
    return found


Table = Annotated[dict[str, T], BeforeValidator(_tabled)]  # in flags and variables: {"NAME": "VALUE"}, in JSON


def _at_home(path: pathlib.Path) -> pathlib.Path:
    return pathlib.Path(os.path.expanduser(path))  # Path.expanduser raises for a user that is not known


class OfFeature(NamedTuple):
    """Marks a section that a feature reads; without the feature it is unknown."""

    name: str


File = Annotated[str, AfterValidator(os.path.expanduser)]  # of a file or folder; ~ is a home, as in a shell
PREFIX_OF_TOPICS = re.compile(r"[a-zA-Z0-9._-]{1,150}")  # Kafka takes 249 characters, ours add the topic's own name


def _checked_prefix(prefix: str) -> str:
    if PREFIX_OF_TOPICS.fullmatch(prefix) is None or prefix in (".", ".."):
        raise PydanticCustomError(
            "topic_name", "must have 1 to 150 of the characters a-z, A-Z, 0-9, '.', '_' and '-', as Kafka's topics do"
        )
    return prefix


class Kafka(Section):
    """The Kafka cluster and its topics. Empty `bootstrap_servers`: the embedded broker under `home`."""

    bootstrap_servers: str = ""  # HOST:PORT,HOST:PORT of a cluster; "": the embedded broker
    prefix: Annotated[str, AfterValidator(_checked_prefix)] = "pochade"  # topics are PREFIX.NAME, groups PREFIX.ROLE
    session_timeout_ms: int = Field(6000, ge=1000, le=60000)  # silence until a member's partitions move on
    group_protocol: Literal["auto", "consumer", "classic"] = "auto"  # consumer: KIP-848; auto: what the cluster speaks
    flow_partitions: int = Field(4, ge=1, le=1024)  # of topics made anew: most classifiers, routers, ledgers that serve
    jobs_partitions: int = Field(4, ge=1, le=1024)  # most workers one variant may have
    properties: Table[str] = Field({}, repr=False)  # librdkafka's own names, passed through (security.protocol ...)


class Registry(Section):
    """A schema registry that knows what newer releases write; this release's own schemas need none."""

    url: str = ""  # https://HOST:PORT; "": none
    username: str = ""  # for basic authentication, with `password`
    password: str = Field("", repr=False)  # or file:PATH
    token: str = Field("", repr=False)  # a bearer token in place of a password, or file:PATH
    ca: File = ""  # PEM file of the authority that signed its certificate; "": those that the system trusts
    timeout_s: float = Field(5, gt=0, le=60)  # of one question


class Schemas(Section):
    """Which versions of the messages are written. Every version ever written is read, whatever stands here."""

    # 0: the newest; else no schema with a higher id than this, until all readers know those of this release
    write_up_to: int = Field(0, ge=0)


class Requests(Section):
    """Limits of what a request may ask for."""

    max_prompt_bytes: int = Field(8192, ge=1)  # of a prompt in UTF-8; a longer one is refused
    max_images: int = Field(int(options_of(GenerateOptions)["n"].about.high or 0), ge=1, le=1024)  # n of one request
    # how far ahead a deadline may be: 3 days, at most 6. The ledger remembers 8 days (`schemas/topics.py`)
    max_deadline_s: float = Field(3 * 86_400, gt=0, le=6 * 86_400)


class Admission(Section):
    """Limits of the work that may wait at workers before requests are rejected."""

    # Predicted wait before the level, and before the next as often as its images are escalated; beyond it: REJECTED
    max_backlog_s: float = Field(60, gt=0)
    interactive_headroom: float = Field(0.2, ge=0, lt=1)  # share of the backlog limit for the tier `interactive` alone


class Tenant(Section):
    """Quota of one tenant, or, under the name "*", of all tenants without a quota of their own together."""

    rate_rps: float = Field(0, ge=0)  # images a second; 0: unlimited
    burst: float = Field(10, ge=1)  # images at once after a silence
    weight: float = Field(1, gt=0)  # of its share when more than half of the allowed backlog waits


class WorkerComponentSettings(Section):
    """Where a worker keeps bases, adapters and controls, and how many bytes of each tier they may fill."""

    # s3://BUCKET/PREFIX or a folder, with the files of each component under KIND/NAME and their list, `component.json`
    # (`streams/weights/manifest.py`); "": components are used where the catalog says that they lie, as on the volume
    remote: str = ""
    volume: File = ""  # folder of the local disk for what is fetched from `remote`; "": HOME/components
    volume_bytes: int = Field(-1, ge=-1)  # -1: half of what is free on its disk at start
    host_bytes: int = Field(-1, ge=-1)  # of memory, beside the device's; -1: a quarter of what is free at start
    device_bytes: int = Field(-1, ge=-1)  # -1: half of what is free on the device at start; on a CPU that is memory
    compiled_bytes: int = Field(1 << 30, ge=0)  # of code that torch.compile made, in VOLUME/compiled, beside the rest

    @model_validator(mode="after")
    def _volume_has_a_remote(self) -> Self:
        if not self.remote and (self.volume or self.volume_bytes != -1):
            raise PydanticCustomError(
                "components_volume", "volume and volume_bytes are for what is fetched: set remote, too, or neither"
            )
        return self


class Worker(Section):
    """One worker process, which generates images with one variant at a time."""

    id: str = ""  # "": host and process id
    variant: str = ""  # variant to serve until a plan allocates this worker; "": wait for a plan
    engine: str = ""  # "": the one the catalog names
    # cpu, mps, cuda or cuda:N, as torch counts in this process; "": as the catalog's loading.device says
    device: str = Field("", pattern=r"^(cpu|mps|cuda(:\d{1,3})?)?$")
    threads: int = Field(1, ge=1)  # torch threads
    heartbeat_ms: int = Field(500, ge=50)  # between two reports of its state and load
    job_timeout_s: float = Field(600, gt=0)  # a job longer than this, stores and commits apart, ends the process
    max_attempts: int = Field(3, ge=1)  # calls of a job that may fail before it is FAILED
    # Cost of this worker, idle or not, in a currency of your own: results, metrics and reports go by it; 0: not stated
    price_per_hour: float = Field(0, ge=0)
    png_text: bool = True  # whether an image's PNG file says how it was made, its prompt included
    components: WorkerComponentSettings = WorkerComponentSettings()


class Scale(Section):
    """How many workers there should be, where the fleet grows and shrinks with the load (`pochade scale`)."""

    when: Literal["policy", "always", "never"] = "policy"  # policy: under a policy that asks for it
    # Of all variants and the pool; 0: kafka.jobs_partitions, which is the most
    max_workers: int = Field(0, ge=0, le=1024)
    max_by_tenant: Table[Annotated[int, Field(ge=0)]] = {}  # workers that a tenant's requests may ask for
    minimum: Table[Annotated[int, Field(ge=0)]] = {}  # variant -> workers that it always has; of levels together
    load_factor: float = Field(0.8, gt=0, le=1)  # share of the workers' places that requests in flight may fill
    period_s: float = Field(10, ge=0.1, le=600)  # between decisions; a variant's first worker is asked for at once
    warm: int = Field(0, ge=0, le=1024)  # least number of started workers held ready without a variant
    max_warm: int = Field(0, ge=0, le=1024)  # most; where it is above `warm` past scale-ups say how many
    start_s: float = Field(20, gt=0, le=3600)  # until a worker that is started anew is ready for a variant


class Planner(Section):
    """The planner: its policy, when it plans, and its timeouts."""

    policy: str = ""  # "": the default of planner/policies
    period_ms: int = Field(5000, ge=100)  # between two plans, if nothing asks for one before
    worker_timeout_ms: int = Field(3000, ge=500)  # a worker unheard of for longer is dead
    leader_timeout_ms: int = Field(3000, ge=1500)  # after which a planner that stands by leads in its place
    parameters: Table[float] = {}  # of the policy
    # Latency that most requests should meet, and those without a deadline try to; 0: the catalog's, if it has one, else
    # the longest wait to which admission admits standard requests
    slo_s: float = Field(0, ge=0)
    # Of the demand until the next plan; policy: as the policy names it
    forecast: Literal["policy", "last", "ewma", "window", "trend"] = "policy"
    # Whether a plan that moves workers must be worth its cost; policy: as the policy asks
    hysteresis: Literal["policy", "always", "never"] = "policy"
    solver_timeout_s: float = Field(3, gt=0)  # a policy that takes longer makes no plan
    exploration_rate: float = Field(0, ge=0, le=1)  # share of first levels drawn evenly, for `replay what-if`
    scale: Scale = Scale()
    # Share right that plans promise of the images that discriminators keep, with the catalog's confidence; 0: none
    quality_at_least: float = Field(0, ge=0, lt=1)
    load_shedding: bool = True  # what no worker has time for is turned away by tier; else it expires at its deadline


class Store(Section):
    """The object store of images."""

    folder: File = ""  # "": HOME/images
    url: str = ""  # s3://BUCKET/PREFIX; "": the folder. Credentials: boto3's own chain, never here
    s3_endpoint_url: str = ""  # of a server that is not Amazon's
    s3_region: str = ""  # "": boto3's own chain
    retention_days: float = Field(30, gt=0)  # `pochade gc` deletes images that are older


def _checked_vectors_url(url: str) -> str:
    if url in ("", "lite", "exact") or url.startswith(("http://", "https://")):
        return url
    raise PydanticCustomError("vectors_url", "must be lite, exact, http://HOST:PORT or https://HOST:PORT")


class Vectors(Section):
    """The vector store of what may be reused."""

    # "": none; lite: Milvus Lite, started by `pochade up`; exact: a file under HOME, searched in full by each process;
    # http://HOST:PORT or https://HOST:PORT: a Milvus
    url: Annotated[str, AfterValidator(_checked_vectors_url)] = ""
    token: str = Field("", repr=False)  # USER:PASSWORD or an API key, or file:PATH; https alone
    ca: File = ""  # PEM file of the authority that signed its certificate; "": those that gRPC trusts
    database: str = ""  # of a Milvus that has several; "": its default
    max_rows: int = Field(10_000, ge=1, le=1_000_000)  # of `exact`; beyond it the oldest go


SafetyAction = Literal["flag", "blur", "block"]


class Safety(Section):
    """The check of images before they are stored, and what is done about those that must not be shown."""

    checker: str = ""  # a folder of a checker, or the name of one under infra/models/safety; "": none
    engine: str = ""  # of a judge of images, such as classifier, whose model `checker` names; "": a checker's folder
    options: Table[Any] = {}  # of that engine, such as {label = "nsfw"}
    threshold: float = Field(0, ge=0, le=1)  # score from which on something is done; 0: the checker's own
    # flag: report the score; blur: beyond recognition, and report it; block: REJECTED `unsafe`, and store nothing
    action: SafetyAction = "block"
    tenants: Table[SafetyAction] = {}  # tenant -> the same, where theirs is another


class Receipts(Section):
    """The signing of images and decisions; `agents/features/RECEIPTS.md` says what it proves."""

    certificate: File = ""  # PEM: the signer's, then those of its issuers; demo: one whose key is public; "": off
    key: File = ""  # PEM: its private key, of P-256

    @model_validator(mode="after")
    def _certificate_has_its_key(self) -> Self:
        if bool(self.key) != (self.certificate not in ("", "demo")):
            raise PydanticCustomError("receipts", "certificate and key are set together; demo has a key of its own")
        return self


class Quality(Section):
    """The quality of what was really served: facts of the tiny world that hold in its images, checked beside."""

    checked_share: float = Field(0, ge=0, le=1)  # of the images that are kept; a check takes about 10 ms of a thread


class Results(Section):
    """The format in which the ledger writes `results`."""

    format: Literal["avro", "json"] = "avro"  # json: one plain JSON object a record, for readers without a registry


class Ledger(Section):
    """When the ledger ends requests by itself, such as those past their deadline."""

    deadline_grace_s: float = Field(2, ge=0)  # after a deadline, for a role that is about to end it


class Http(Section):
    """The HTTP server of a process: /livez, /readyz, /metrics."""

    host: str = "127.0.0.1"  # address that it listens at; 0.0.0.0: all, as a pod needs
    port: int = Field(0, ge=-1, le=65535)  # 0: a free one, logged at start, so that roles can share a machine; -1: none


EVERY_PAGE = "*"  # among the gateway's origins
ORIGIN = re.compile(r"https?://[a-z0-9.:\[\]-]+")


def _listed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if not value.startswith("["):
        return tuple(filter(None, value.split(",")))
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise PydanticCustomError("list", 'must be a list, as A,B or as ["A", "B"]') from None


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_listed)]  # in flags and variables: A,B or ["A", "B"]


class Webhooks(Section):
    """Events of predictions that are posted to the tenants' addresses."""

    internal: Names = ()  # origins that get events by http or at private addresses, too, such as http://10.0.0.7:8080
    max_open: int = Field(1000, ge=0)  # requests of one tenant whose last event is not delivered; beyond it 429
    max_attempts: int = Field(12, ge=1, le=50)  # to deliver an event, within half an hour; then it goes to the dlq
    timeout_s: float = Field(10, gt=0, le=60)  # of one attempt

    @model_validator(mode="after")
    def _origins_have_no_path(self) -> Self:
        if not all(map(ORIGIN.fullmatch, self.internal)):
            raise PydanticCustomError("origin", "internal must be like http://HOST:PORT, without a path")
        return self


class Gateway(Section):
    """The HTTP API for clients that do not speak Kafka (`pochade serve gateway`)."""

    host: str = "127.0.0.1"  # one that others reach needs authentication, and TLS of its own or of a proxy before it
    port: int = Field(8760, ge=0, le=65535)  # 0: a free one, logged at start
    authentication: Literal["none", "bearer"] = "none"  # bearer: requests carry an API key (`pochade keys create`)
    max_failures: int = Field(60, ge=1)  # refused keys a minute from one address; those beyond it get 429
    tls_certificate: File = ""  # PEM file with the server's certificate and its chain; "": plain HTTP
    tls_key: File = ""  # PEM file with its private key
    public_url: str = ""  # by which clients reach it through a proxy, https://HOST; "": the one that they ask at
    origins: Names = ()  # of other sites' pages that may ask, https://HOST; "*": all that have a key
    # until a request for images is answered; it is its deadline in the pipeline, too, unless it states an earlier one
    wait_s: float = Field(300, gt=0, le=3600)
    max_body_bytes: int = Field(2**20, ge=1024)  # of a body without images; a larger one is refused
    max_upload_bytes: int = Field(41 * 2**20, ge=1024)  # of a body with images: two of 20 MiB, and its other fields
    max_uploads: int = Field(4, ge=1)  # such bodies that are read at once; beyond it 503
    client_timeout_s: float = Field(15, gt=0, le=600)  # for a request's head, its body, and for reading the answer
    max_open: int = Field(1000, ge=1)  # requests answered at once; beyond it 503
    history_s: float = Field(900, ge=0)  # how far back a gateway that starts reads what was asked for and ended
    max_jobs: int = Field(10_000, ge=1)  # requests that it remembers; the oldest of who has most leave
    url_lifetime_s: float = Field(3600, ge=1, le=604_800)  # of addresses of images
    models: Table[str] = {}  # name that clients state -> model of the catalog, or auto: {"dall-e-3" = "auto"}
    # what becomes of a size that no level generates: refused, the nearest one, or that one scaled to what was asked
    foreign_sizes: Literal["refuse", "nearest", "scale"] = "refuse"
    on_hang_up: Literal["finish", "cancel"] = "finish"  # what becomes of an images request that its client leaves
    webhooks: Webhooks = Webhooks()
    url_secret: str = Field("", repr=False)  # that signs them, or file:PATH; "": in HOME/gateway.secret, made once

    @model_validator(mode="after")
    def _is_for_its_clients_alone(self) -> Self:
        is_keyed = self.authentication == "bearer"
        _check_listening(self, is_keyed=is_keyed)
        origins = [origin for origin in self.origins if origin != EVERY_PAGE or not is_keyed]
        if not all(map(ORIGIN.fullmatch, [*filter(None, [self.public_url]), *origins])):
            raise PydanticCustomError(
                "origin", "public_url and origins must be like https://HOST:PORT, without a path; origins may be * "
                "while authentication is bearer",
            )  # fmt: skip
        return self


def _check_listening(section: "Gateway | Console", *, is_keyed: bool) -> None:
    """Refuse a server that others than this machine reach, unless it asks for keys that do not travel in clear."""
    is_private = section.host in LOOPBACK
    if not is_keyed and not is_private:
        raise PydanticCustomError(
            "host", f"host must be one of {', '.join(LOOPBACK)} while authentication is none: any client could ask"
        )  # fmt: skip
    if not is_private and not section.tls_certificate and not section.public_url.startswith("https://"):
        raise PydanticCustomError(
            "tls", "a host that others reach needs tls_certificate and tls_key, or public_url with https:// of a "
            "proxy: keys must not travel in clear",
        )  # fmt: skip
    if bool(section.tls_certificate) != bool(section.tls_key):
        raise PydanticCustomError("tls", "tls_certificate and tls_key must both be files, or neither")


class Console(Section):
    """The pages for operators (`pochade serve console`)."""

    host: str = "127.0.0.1"  # one that others reach needs authentication, and TLS of its own or of a proxy before it
    port: int = Field(8770, ge=0, le=65535)  # 0: a free one, logged at start
    # none: any user of this machine is an operator; keys: an API key of scope viewer or operator signs in
    authentication: Literal["none", "keys"] = "none"
    max_failures: int = Field(20, ge=1)  # refused keys a minute from one address; those beyond it get 429
    tls_certificate: File = ""  # PEM file with the server's certificate and its chain; "": plain HTTP
    tls_key: File = ""  # PEM file with its private key
    public_url: str = ""  # by which browsers reach it through a proxy, https://HOST; "": the one that they ask at
    prompts: Literal["hash", "clear"] = "hash"  # what a person asked for is private; images are shown in any case
    session_s: float = Field(43_200, ge=60)  # until a signed-in browser must show its key again
    history_s: float = Field(3600, ge=0)  # how far back a console that starts reads
    max_requests: int = Field(20_000, ge=100)  # that it remembers, about 3 KB each; the oldest leave
    max_viewers: int = Field(100, ge=1)  # live pages that are open at once; beyond it pages are served still
    command_timeout_s: float = Field(60, gt=0)  # of a command that a page asks for; one runs at a time
    client_timeout_s: float = Field(15, gt=0, le=600)  # for a request's head, its body, and for reading the answer

    @model_validator(mode="after")
    def _is_for_its_viewers_alone(self) -> Self:
        _check_listening(self, is_keyed=self.authentication == "keys")
        if self.public_url and not ORIGIN.fullmatch(self.public_url):
            raise PydanticCustomError("origin", "public_url must be like https://HOST:PORT, without a path")
        return self


class Logs(Section):
    """The log, which is written to standard error."""

    format: Literal["text", "json"] = "text"  # json: one object a line
    level: Literal["debug", "info", "warning", "error"] = "info"  # the least that is written
    prompts: Literal["hash", "clear"] = "hash"  # what a person asked for is theirs


class Tracing(Section):
    """Traces of requests over all roles, by OpenTelemetry. Credentials: OTEL_EXPORTER_OTLP_HEADERS, never here."""

    endpoint: str = ""  # of a collector that takes OTLP over HTTP: http://HOST:4318/v1/traces; "": off
    ratio: float = Field(0.1, ge=0, le=1)  # share of the traces that are recorded, besides those that clients record

    @model_validator(mode="after")
    def _endpoint_is_an_address(self) -> Self:
        if self.endpoint and not self.endpoint.startswith(("http://", "https://")):
            raise PydanticCustomError("endpoint", "endpoint must be like http://HOST:4318/v1/traces")
        return self


class TraceFormat(Section):
    """How the requests of a log or an export are read: `pochade simulate LOG --preset NAME`."""

    time_column: str = ""  # column or JSON key of the times; "": by our names
    prompt_column: str = ""  # of the prompts
    time_format: str = ""  # strptime's codes; "": ISO 8601, or a number since 1970
    line_pattern: str = ""  # regular expression with the group (?P<time>...), for lines of a log


class Settings(BaseSettings):
    """All settings of a process."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True, env_ignore_empty=True,
        allow_inf_nan=False,
    )  # fmt: skip

    home: Annotated[pathlib.Path, AfterValidator(_at_home)] = pathlib.Path(
        ".pochade"
    )  # broker data, images, logs of this deployment
    catalog: str = "tiny"  # a name under infra/catalogs, or a file
    kafka: Kafka = Kafka()
    registry: Registry = Registry()
    schemas: Schemas = Schemas()
    requests: Requests = Requests()
    admission: Admission = Admission()
    tenants: Annotated[Table[Tenant], OfFeature("tenants")] = {}
    worker: Worker = Worker()
    planner: Planner = Planner()
    store: Store = Store()
    vectors: Vectors = Vectors()
    safety: Annotated[Safety, OfFeature("safety")] = Safety()
    receipts: Annotated[Receipts, OfFeature("receipts")] = Receipts()
    quality: Quality = Quality()
    results: Results = Results()
    ledger: Ledger = Ledger()
    http: Http = Http()
    gateway: Gateway = Gateway()
    console: Console = Console()
    logs: Logs = Logs()
    tracing: Tracing = Tracing()
    traces: Table[TraceFormat] = {}  # how an operator's own logs are read as traces
    # features of installed packages that roles open, beside those that ship (`agents/features/README.md`)
    features: Names = ()
    shutdown_timeout_s: float = Field(30, gt=0)  # between SIGTERM and the end, for the work in hand

    def broker_address(self) -> str:
        """What clients connect to: the configured cluster, else the broker that runs under `home`.

        Raises:
            PochadeError: none is configured and none runs.
        """
        from streams.broker import address  # psutil, which who shows settings need not wait for

        return address.bootstrap_servers(self)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003  the base class names it
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags, then environment, then TOML."""
        file = config_file()
        try:
            toml = TomlConfigSettingsSource(settings_cls, file)
        except (ValueError, RecursionError, OSError) as error:
            raise InvalidSettings(f"{file} cannot be read as TOML: {error}; correct the file") from None
        return init_settings, env_settings, toml


def path_of(key: str) -> tuple[str, ...]:
    """Split a setting's key at the dots between sections: what follows the name of a table of free keys is one key.

    `kafka.properties.security.protocol` has three parts, `planner.scale.minimum.heavy` four. Where the free keys are of
    sections the last dot is before the section's field: `tenants.acme.rate_rps` has three.
    """
    section: type[BaseModel] | None = Settings
    parts, rest = list[str](), key
    while section is not None and "." in rest:
        name, _, rest = rest.partition(".")
        parts.append(name)
        kind = section.model_fields[name].annotation if name in section.model_fields else None
        section = kind if _is_section(kind) else None
        if "." in rest and any(map(_is_section, get_args(kind))):
            free, _, rest = rest.rpartition(".")
            parts.append(free)
    return *parts, rest


def _is_section(kind: Any) -> TypeGuard[type[BaseModel]]:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def config_file() -> pathlib.Path:
    named = os.environ.get("POCHADE_CONFIG")
    if named and not pathlib.Path(named).is_file():
        raise InvalidSettings(f"POCHADE_CONFIG names {named}, which is not a file: correct or unset it")
    return pathlib.Path(named or "pochade.toml")


def load(flags: Mapping[str, Any] | None = None) -> Settings:
    """The settings of this process; `flags` is nested like the TOML file. Raises InvalidSettings, Unknown for a key."""
    _refuse_unknown_variables()
    try:
        return Settings(**(flags or {}))
    except ValidationError as error:
        raise _readable(error) from None
    except (ValueError, RecursionError) as error:
        raise InvalidSettings(
            f"a variable {PREFIX}* cannot be read: {error}; the value of a table, such as {PREFIX}TENANTS, is JSON"
        ) from None


def stated_sections(settings: Settings) -> dict[str, str]:
    """Return the sections of features that these settings state -> the feature."""
    return {
        name: mark.name
        for name, field in Settings.model_fields.items()
        for mark in field.metadata
        if isinstance(mark, OfFeature) and name in settings.model_fields_set
    }


def _refuse_unknown_variables() -> None:
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    for variable in sorted(os.environ):
        is_ours = variable.startswith(PREFIX) and variable not in PROCESS_VARIABLES
        if is_ours and variable.split("__")[0] not in known:
            raise Unknown("environment variable", variable.split("__")[0], known)


def _fields_of(sections: Sequence[str]) -> Iterable[str]:
    """Return the names of the fields of a section; of those in a table, a free key is part of the path."""
    kind: Any = Settings
    for name in sections:
        if _is_section(kind):
            kind = kind.model_fields[name].annotation if name in kind.model_fields else None
        else:
            kind = next(filter(_is_section, get_args(kind)), None)
    return kind.model_fields if _is_section(kind) else ()


def _readable(error: ValidationError) -> PochadeError:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        *sections, name = [str(part) for part in first["loc"]]
        known = [".".join([*sections, field]) for field in _fields_of(sections)]
        return Unknown("setting", name if not sections else where, known)
    return InvalidSettings(f"setting {where}: {first['msg']}: got {quoted(first['input'], where)}")
