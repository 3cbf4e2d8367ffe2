"""Each query of dashboards, alert rules and the chart's autoscaling returns series in a real Prometheus.

It scrapes the roles of the tiny models once a second while they serve requests: three workers, and a process of all
others.
"""

import json
import math
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import httpx
import pytest
import yaml

from infra.bin.observing.alerts import ALERTS
from infra.bin.observing.dashboards import WINDOW, queries
from infra.bin.observing.documents import FOLDER, metrics_of
from replay.local.processes import START
from schemas.ids import new_request_id
from schemas.messages import GenerateOptions, GenerateRequest
from schemas.record import Outgoing
from schemas.topics import FLEET
from streams.clock import now_ms
from streams.codec.avro import encode
from streams.control.api_keys import store
from streams.kafka.producers.writing import send_all
from streams.kafka.topics import create_topics
from streams.observing.metric import TABLE
from streams.processes import forkserver
from streams.security.api_keys import new_key
from streams.security.scopes import SCOPES
from streams.settings import load
from tests.agents.console.deployment import token_in
from tests.infra.chart.rendering import CHART, template
from tests.integration import waiting
from tests.integration.pipeline import Pipeline
from tests.integration.receiver import Receiver, receiving
from tests.nightly.prometheus import Prometheus, serving
from tests.paths import ROOT

PROMPTS: Final = (ROOT / "replay" / "load" / "prompts.txt").read_text().splitlines()
LIMIT_S: Final = 400  # of a wait, however busy the machine is
ROUNDS, MOST_ROUNDS, A_ROUND = 2, 8, 12  # of traffic under each policy; requests a round
REUSES: Final = "nirvana"  # which begins from stored latents
POLICIES: Final = ("diffserve-static", REUSES)  # the first escalates
HITS: Final = 'pochade_reuse_jobs_total{outcome="hit"}'
RELEASE, NAMESPACE = "images", "art"
SETTINGS: Final = (
    "planner.policy=diffserve-static", "planner.parameters.threshold=0.97", "planner.slo_s=30",
    "planner.scale.when=always", "planner.scale.max_workers=3", "planner.scale.minimum.heavy=2", "planner.scale.warm=0",
    "vectors.url=exact", "quality.checked_share=1", "safety.checker=mushroom", "worker.price_per_hour=2",
    "gateway.port=0", "gateway.authentication=bearer", "gateway.webhooks.max_attempts=1", "console.port=0",
    "tracing.ratio=1", "tracing.endpoint=http://127.0.0.1:9/v1/traces",  # where nothing listens
)  # fmt: skip
ROLES: Final = ("classifier", "router", "discriminator", "ledger", "planner", "indexer", "gateway", "console")
LAYOUT: Final = {"rest": [*ROLES], **{f"worker-{n}": ["worker"] for n in (1, 2, 3)}}

# selector -> why it has no series here; a metric without labels is exposed from the start
FAULT, SCALED, CARD = "it takes a fault", "`pochade scale` is not used", "no GPU is here"
ABSENT: Final = {
    'pochade_request_seconds_count{status="FAILED"}': FAULT,
    'pochade_workers{state="silent"}': FAULT,
    'pochade_workers{state="sick"}': FAULT,
    'pochade_gateway_requests_total{status=~"5.."}': FAULT,
    "pochade_role_restarts_total": FAULT,
    "pochade_deleted_unread_total": FAULT,
    "pochade_plans_refused_total": FAULT,
    "pochade_resends_total": FAULT,
    "pochade_vectors_dropped_total": FAULT,
    "pochade_gateway_clients_left_total": "no client hangs up",
    "pochade_gateway_streams_refused_total": "fewer streams are open than may be",
    "pochade_awaited_schemas_total": "all roles are of one release",
    "pochade_shed_total": "the fleet is scaled before it sheds",
    "pochade_compile_seconds_sum": "no variant is compiled",
    "pochade_compile_seconds_count": "no variant is compiled",
    "pochade_scale_events_total": SCALED,
    "pochade_scale_workers": SCALED,
    "pochade_gpu_memory_bytes": CARD,
    "pochade_gpu_temperature_celsius": CARD,
    "pochade_gpu_utilisation": CARD,
}
SOMETIMES: Final = {"pochade_dead_work_total"}  # where a request ends while a worker has its job

SELECTOR: Final = re.compile(r"\bpochade_\w+(?:\{[^}]*\})?")
SETS, COMPARES = (" or ", " and ", " unless "), (" >= ", " > ", " < ")


class Deployment(NamedTuple):
    """A deployment under load, and what scrapes it."""

    pipeline: Pipeline
    prometheus: Prometheus
    gateway: httpx.Client
    console: httpx.Client
    receiver: Receiver


def parts(query: str, signs: tuple[str, ...]) -> list[str]:
    """Split a query at these operators where no parenthesis or brace is open."""
    depth, begun, at, found = 0, 0, 0, list[str]()
    while at < len(query):
        depth += (query[at] in "({[") - (query[at] in ")}]")
        sign = next((sign for sign in signs if depth == 0 and query.startswith(sign, at)), "")
        if sign:
            found.append(query[begun:at])
            begun = at + len(sign)
        at += len(sign) or 1
    return [*found, query[begun:]]


def operands(rule: str) -> Iterator[str]:
    """Yield what a rule compares or joins, which has series whether or not the rule holds."""
    for part in (each for whole in parts(rule, SETS) for each in parts(whole, COMPARES)):
        is_whole = part.startswith("(") and len(parts(part, ("(",))) == 1 and part.endswith(")")
        if is_whole and len(parts(part[1:-1], SETS)) > 1:
            yield from operands(part[1:-1])
        elif SELECTOR.search(part) and not part.startswith("absent("):
            yield part.replace(" offset 15m", "")  # of which the deployment is younger


def unanswered(prometheus: Prometheus, query: str) -> list[str]:
    """Return [] if a query has a finite value; else its selectors without series, or itself if each has some."""
    if any(math.isfinite(float(each["value"][1])) for each in prometheus.query(query)):
        return []
    return [each for each in SELECTOR.findall(query) if not prometheus.query(each)] or [query]


@pytest.fixture(scope="module", autouse=True)
def patience() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waiting, "PATIENCE_S", LIMIT_S)
        patch.setattr(forkserver, "START_TIMEOUT_S", LIMIT_S)
        yield


@pytest.fixture(scope="module")
def deployment(broker_home: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    kafka = {"prefix": "queries", "session_timeout_ms": 3000}
    settings = load({"home": broker_home, "kafka": kafka, "catalog": "tiny"})
    create_topics(settings, ["light", "middle", "heavy", "styles"])
    key, known = new_key("studio", SCOPES, now_ms())
    store(settings, known)
    with receiving() as receiver:
        extra = [*SETTINGS, f"gateway.webhooks.internal={receiver.origin}"]
        logs = tmp_path_factory.mktemp("logs")
        pipeline = Pipeline(settings, logs, catalog="tiny", extra=extra, roles=LAYOUT, has_models=True)
        try:
            pipeline._follower.start()
            for name in LAYOUT:
                pipeline.start_role(name)
            pipeline.until(lambda: serves(pipeline), "workers that serve, and every role ready")
            targets = targets_of(pipeline)
            labels = {"namespace": NAMESPACE, "app_kubernetes_io_instance": RELEASE}
            with serving(tmp_path_factory.mktemp("prometheus"), targets, labels, FOLDER / "alerts.yaml") as prometheus:
                count = sum(map(len, targets.values()))
                pipeline.until(lambda: prometheus.up() == count, "a scrape of each process")
                with (
                    httpx.Client(
                        base_url=re.findall(r"images API on (\S+)/v1", pipeline.log("rest"))[-1],
                        headers={"authorization": f"Bearer {key}"}, trust_env=False, timeout=120,
                    ) as gateway,
                    httpx.Client(
                        base_url=pipeline.log("rest").split("console on ")[1].split()[0].rstrip("/"),
                        trust_env=False, timeout=120, follow_redirects=True,
                    ) as console,
                ):  # fmt: skip
                    found = Deployment(pipeline, prometheus, gateway, console, receiver)
                    serve(found)
                    yield found
        finally:
            pipeline.close()


def serves(pipeline: Pipeline) -> bool:
    """Whether two workers take jobs and all roles are ready; a third may be held without a variant."""
    beats = [beat for _, beat in list(pipeline.heartbeats.values())]
    taking = sum(beat.state in ("ready", "painting") and bool(beat.partitions) for beat in beats)
    return taking >= 2 and all(pipeline._says_ready(name) for name in LAYOUT if not name.startswith("worker"))


def targets_of(pipeline: Pipeline) -> dict[str, list[str]]:
    """Role -> addresses of its processes, which are announced under HOME."""
    found = dict[str, list[str]]()
    for file in (pipeline.settings.home / "serving").iterdir():
        kept = json.loads(file.read_text())
        if kept["prefix"] == pipeline.settings.kafka.prefix:
            found.setdefault("-".join(kept["roles"]), []).append(kept["address"].removeprefix("http://"))
    return found


def serve(deployment: Deployment) -> None:
    """Have some of everything asked for under each policy, twice at least, so that counters grow between scrapes."""
    for policy in POLICIES:
        if policy != POLICIES[0]:
            command(deployment, "plan", "pin", policy)
        for number in range(MOST_ROUNDS):
            if number >= ROUNDS and (policy != REUSES or deployment.prometheus.query(HITS)):
                break  # on a busy machine the first lookups are answered too late
            ids = a_round(deployment)
            deployment.pipeline.until(partial(have_ended, deployment.pipeline, ids), "a round's results")
            scraped(deployment)


def have_ended(pipeline: Pipeline, ids: list[str]) -> bool:
    return pipeline.ended(ids) == len(ids)


def scraped(deployment: Deployment) -> None:
    """Wait until each process was scraped twice more."""
    query = "min(count_over_time(up[1h]))"
    before = float(deployment.prometheus.query(query)[0]["value"][1])
    deployment.pipeline.until(
        lambda: float(deployment.prometheus.query(query)[0]["value"][1]) >= before + 2, "two more scrapes"
    )


def command(deployment: Deployment, *words: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", START, *deployment.pipeline._options, *words],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr


def a_round(deployment: Deployment) -> list[str]:
    """Ask for some of everything; return the ids that end on `results`."""
    pipeline = deployment.pipeline
    ids = [asked(pipeline, prompt, tenant="studio") for prompt in PROMPTS[:A_ROUND]]
    ids += [asked(pipeline, PROMPTS[0], tier=tier) for tier in ("interactive", "batch")]
    ids.append(asked(pipeline, "a red heart", options=GenerateOptions(model="poster", adapters=("candy",))))
    ids.append(asked(pipeline, "a red heart", options=GenerateOptions(adapters=("nonesuch",), strict=True)))
    ids.append(asked(pipeline, "a red heart", options=GenerateOptions(width=64, height=64)))
    ids.append(asked(pipeline, "a late star", deadline_ms=now_ms() + 1))
    again = GenerateRequest(request_id=new_request_id(), prompt="two blue stars", created_ms=now_ms())
    for _ in range(2):
        pipeline.write(encode(again), again.request_id.encode())
    pipeline.write(b"no record of ours", b"no id")
    send_all(pipeline.producer, [Outgoing(topic=FLEET, key=b"no worker", value=b"no heartbeat")])
    by_http(deployment)
    return [*ids, again.request_id]


def asked(pipeline: Pipeline, prompt: str, tier: str = "standard", **fields: Any) -> str:
    options = fields.pop("options", GenerateOptions(reuse="own"))
    request = GenerateRequest(
        request_id=new_request_id(), prompt=prompt, created_ms=now_ms(), tier=tier, options=options,
        **{"deadline_ms": now_ms() + 600_000, **fields},
    )  # fmt: skip
    pipeline.write(encode(request), request.request_id.encode())
    return request.request_id


def by_http(deployment: Deployment) -> None:
    gateway, console = deployment.gateway, deployment.console
    made = gateway.post("/v1/images/generations", json={"prompt": "a red heart"})
    assert made.status_code == 200, made.text
    streaming = {"prompt": "a yellow star above a blue boat", "stream": True, "partial_images": 2}
    streamed = gateway.post("/v1/images/generations", json=streaming)
    assert streamed.status_code == 200, streamed.text
    key = {"idempotency-key": new_request_id()}
    for _ in range(2):
        twice = gateway.post("/v1/images/generations", json={"prompt": "a black cat"}, headers=key)
        assert twice.status_code == 200, twice.text
    body = {"input": {"prompt": "a small dog"}, "webhook": f"{deployment.receiver.origin}/here"}
    hooked = gateway.post("/v1/models/pochade/auto/predictions", json=body, headers={"prefer": "wait"})
    assert hooked.status_code in (200, 201), hooked.text
    refused = gateway.get("/v1/models", headers={"authorization": "Bearer nonesuch"})
    assert refused.status_code == 401
    deployment.pipeline.until(lambda: sent_by_console(console), "the console's request is taken")


def sent_by_console(console: httpx.Client) -> bool:
    """Whether the console's form was taken; on a busy machine the broker may be too slow for it."""
    fields = {"token": token_in(console.get("/try").text), "prompt": "a green tree"}
    return console.post("/requests", data=fields).status_code == 200


def test_every_panel_has_a_value(deployment: Deployment) -> None:
    asked = sorted({query.replace(WINDOW, "15m") for query in queries()})
    found = {query: unanswered(deployment.prometheus, query) for query in asked}
    answered = [query for query, absent in found.items() if not absent]
    print(f"{len(answered)} of {len(asked)} queries of panels have a value")
    assert {query: absent for query, absent in found.items() if not set(absent) <= ABSENT.keys() | SOMETIMES} == {}


def test_every_side_of_every_alert_rule_has_a_value(deployment: Deployment) -> None:
    asked = {(alert.name, query) for alert in ALERTS for query in operands(alert.query)}
    found = {each: unanswered(deployment.prometheus, each[1]) for each in sorted(asked)}
    print(f"{sum(not absent for absent in found.values())} of {len(asked)} sides of alert rules have a value")
    assert {each: absent for each, absent in found.items() if not set(absent) <= ABSENT.keys() | SOMETIMES} == {}
    assert {name for name, _ in asked} == {alert.name for alert in ALERTS}


def test_what_is_excused_has_no_series_and_is_a_selector_of_the_table(deployment: Deployment) -> None:
    assert [selector for selector in ABSENT if deployment.prometheus.query(selector)] == [], "no longer to be excused"
    assert set().union(*map(metrics_of, ABSENT)) <= TABLE.keys()


def test_the_rules_are_evaluated_without_an_error_and_report_only_what_was_done(deployment: Deployment) -> None:
    rules = deployment.prometheus.get("rules")["groups"][0]["rules"]
    assert [(rule["name"], rule["lastError"]) for rule in rules if rule["health"] != "ok"] == []
    assert {rule["name"] for rule in rules} == {alert.name for alert in ALERTS}
    firing = {rule["name"] for rule in rules if rule["state"] == "firing"}
    assert firing == {"PochadeUnusableRecords", "PochadeWebhooksLost", "PochadeDeadLetters"}


def test_what_an_autoscaler_asks_is_the_number_of_workers_that_the_plan_wants(deployment: Deployment) -> None:
    class_of_a_level = ["workers.big.variant=heavy", "workers.big.longestJobSeconds=60", "workers.big.maximum=1"]
    sets = ["keda.enabled=true", "keda.prometheus=http://prometheus:9090", "monitoring.serviceMonitor=true"]
    sets += ["workers.cpu.scale=true", "workers.cpu.maximum=3", *class_of_a_level]
    options = [part for each in sets for part in ("--set", each)]
    done = template("--values", str(CHART / "values" / "laptop.yaml"), *options, release=RELEASE)
    assert done.returncode == 0, done.stderr
    objects = [each for each in yaml.safe_load_all(done.stdout) if each]
    (monitor,) = (each["spec"] for each in objects if each["kind"] == "ServiceMonitor")
    labels = {re.sub(r"\W", "_", label) for label in monitor["podTargetLabels"]} | {"namespace"}
    asked = {
        each["metadata"]["name"].rpartition("-")[2]: each["spec"]["triggers"][0]["metadata"]["query"]
        for each in objects
        if each["kind"] == "ScaledObject"
    }
    assert asked.keys() == {"cpu", "big"}
    for query in asked.values():
        matched = set(re.findall(r"(\w+)=", query)) - {"variant"}
        assert matched == {"namespace", "app_kubernetes_io_instance"} <= labels, "labels that scraping sets"
    scale = deployment.pipeline.plans[-1][1].scale
    assert scale is not None
    wanted = {"cpu": sum(scale.targets.values()) + scale.warm, "big": scale.targets["heavy"]}
    deployment.pipeline.until(
        lambda: (
            {name: numbers(deployment.prometheus, query) for name, query in asked.items()}
            == {name: [float(count)] for name, count in wanted.items()}
        ),
        lambda: f"{wanted}: {[(query, deployment.prometheus.query(query)) for query in asked.values()]}",
    )


def numbers(prometheus: Prometheus, query: str) -> list[float]:
    """The values of a query's series."""
    return [float(each["value"][1]) for each in prometheus.query(query)]
