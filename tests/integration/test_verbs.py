"""The verbs of a deployment, each as a person calls it, on the real broker, with results as JSON."""

import base64
import contextlib
import dataclasses
import io
import json
import pathlib
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from click.testing import Result as Invoked
from confluent_kafka import Consumer, TopicPartition
from PIL import Image

from schemas.messages import GenerateJob, Status
from schemas.topics import DLQ, IMAGES, RESULTS, TABLE, full_name, jobs_topic
from streams import cli
from streams.clock import now_ms
from streams.codec.avro import decode
from streams.control.api_keys import store
from streams.kafka.clients import client_config
from streams.kafka.consumers import snapshot
from streams.kafka.topics import create_topics
from streams.operator.client import RequestClient
from streams.security.api_keys import new_key
from streams.security.scopes import SCOPES
from streams.settings import Settings, load
from tests.agents.gateway.test_webhooks import is_signed
from tests.integration.pipeline import ROLES, Pipeline, all_completed
from tests.integration.receiver import Receiver, receiving
from tests.integration.waiting import poll_until
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.broker

GATEWAYS = ("gateway", "gateway-2")
KEY_FILE = "verbs.key"  # under the broker's home


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def running(
    broker_home: pathlib.Path, tmp_path_factory: pytest.TempPathFactory, receiver: Receiver
) -> Iterator[Pipeline]:
    kafka = {"prefix": "verbs", "session_timeout_ms": 3000}
    settings = load({"home": broker_home, "kafka": kafka, "results": {"format": "json"}, "catalog": "profile"})
    create_topics(settings, ["light", "heavy"])
    roles, logs = {**ROLES, **{name: ["gateway"] for name in GATEWAYS}}, tmp_path_factory.mktemp("logs")
    told = f"gateway.webhooks.internal={receiver.origin}"
    extra = ["gateway.port=0", "gateway.authentication=bearer", told]
    pipeline = Pipeline(settings, logs, extra=extra, roles=roles)
    try:
        key, known = new_key("verbs", SCOPES, now_ms())
        store(settings, known)
        (broker_home / KEY_FILE).write_text(key)
        yield pipeline.start()
    finally:
        pipeline.close()


@pytest.fixture
def pipeline(running: Pipeline) -> Pipeline:
    """The module's pipeline, whole again after whatever the test before did to it."""
    running.heal()
    running.until(running.is_ready, "all roles back")
    return running


def pochade(settings: Settings, *arguments: str) -> Invoked:
    """A command of this deployment, in this process: one of its own imports for half a processor second."""
    options = [
        "--home",
        str(settings.home),
        "--set",
        f"kafka.prefix={settings.kafka.prefix}",
        "--set",
        "catalog=profile",
    ]
    done = CliRunner().invoke(cli.main, [*options, *arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    return done


def rows(done: Invoked) -> list[dict[str, object]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def queued(settings: Settings, request_id: str) -> tuple[str, int, int] | None:
    """Variant, partition and offset of the request's job."""
    for variant in ("light", "heavy"):
        for record in snapshot.past(settings, [jobs_topic(variant, 1).name]):
            if decode(record.value, GenerateJob).classified.request.request_id == request_id:
                return variant, record.partition, record.offset
    return None


def is_passed(settings: Settings, variant: str, partition: int, offset: int) -> bool:
    """Whether the variant's workers have committed past this job."""
    prefix = settings.kafka.prefix
    consumer = Consumer({**client_config(settings), "group.id": f"{prefix}.worker.{variant}"})
    try:
        asked = TopicPartition(full_name(prefix, jobs_topic(variant, 1).name), partition)
        (committed,) = consumer.committed([asked], timeout=PATIENCE_S)
        return bool(committed.offset > offset)
    finally:
        consumer.close()


def test_a_queued_job_of_a_cancelled_request_never_starts(pipeline: Pipeline) -> None:
    settings = pipeline.settings
    for worker in ("worker-1", "worker-2"):
        pipeline.kill(worker)
    (request_id,) = pipeline.submit(1)
    pipeline.until(lambda: queued(settings, request_id) is not None, "the job on its topic")
    done = pochade(settings, "cancel", request_id, "--wait", "-o", "json")
    assert (done.exit_code, rows(done)[0]["status"]) == (0, "CANCELLED")
    where = queued(settings, request_id)
    assert where is not None
    pipeline.heal()
    pipeline.until(lambda: is_passed(settings, *where), "the workers past the job")
    assert not snapshot.past(settings, [IMAGES], keep=lambda record: record.key == request_id.encode())
    (result,) = pipeline.wait_all([request_id])
    assert (result.status, result.reason) == (Status.CANCELLED, "asked for by a client")


def test_a_request_that_is_cancelled_while_its_worker_is_killed_ends_cancelled_once(pipeline: Pipeline) -> None:
    ids = pipeline.submit(150, rate=10_000)
    pipeline.until(lambda: pipeline.ended(ids) > 0, "the first image")
    RequestClient(pipeline.settings, pipeline.producer).cancel(ids[-1], "killed with its worker").result(PATIENCE_S)
    for worker in ("worker-1", "worker-2"):
        pipeline.kill(worker)
    pipeline.heal()
    *others, last = pipeline.wait_all(ids)
    assert (last.status, last.code) == (Status.CANCELLED, "cancelled")
    all_completed(others)


def test_a_request_that_has_ended_is_not_cancelled(pipeline: Pipeline) -> None:
    (result,) = pipeline.wait_all(pipeline.submit(1))
    done = pochade(pipeline.settings, "cancel", result.request_id, "--wait")
    assert done.exit_code == 1
    assert "had ended as COMPLETED, and keeps that end" in done.stdout


def test_an_id_that_is_cancelled_before_anybody_sends_it_is_used_up(pipeline: Pipeline, tmp_path: pathlib.Path) -> None:
    done = pochade(pipeline.settings, "cancel", "never-sent", "--wait", "-o", "json")
    assert (done.exit_code, rows(done)[0]["status"], rows(done)[0]["known"]) == (1, "CANCELLED", False)
    again = pochade(pipeline.settings, "cancel", "never-sent")
    assert (again.exit_code, "no request 'never-sent' is known" in again.stderr) == (1, True), "its own result is none"
    file = tmp_path / "late.jsonl"
    file.write_text('{"prompt": "a red heart", "request_id": "never-sent"}\n')
    sent = pochade(pipeline.settings, "submit", "--file", str(file), "--wait")
    assert (sent.exit_code, "1 CANCELLED" in sent.stderr) == (1, True)
    assert len(snapshot.past(pipeline.settings, [RESULTS], keep=lambda record: record.key == b"never-sent")) == 1


def test_a_file_is_submitted_watched_and_fetched(pipeline: Pipeline, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text('a red heart\n{"prompt": "two cats", "request_id": "file-2", "seed": 3, "quality": "low"}\n')
    sent = pochade(pipeline.settings, "submit", "--file", str(file), "--wait")
    assert (sent.exit_code, "2 COMPLETED" in sent.stderr) == (0, True)
    first, second = sent.stdout.split()
    assert second == "file-2"
    watched = pochade(pipeline.settings, "watch", first, second, "--timeout", "30", "-o", "jsonl")
    assert watched.exit_code == 0
    assert {row["request_id"] for row in rows(watched) if row["kind"] == "ended"} == {first, second}
    target = tmp_path / "x.png"
    assert pochade(pipeline.settings, "fetch", second, "--out", str(target)).exit_code == 0
    assert target.read_bytes()[:4] == b"\x89PNG"
    explained = pochade(pipeline.settings, "explain", second, "-o", "json")
    assert json.loads(explained.stdout)["prompt"] == "two cats"
    again = pochade(pipeline.settings, "again", second, "--wait", "-o", "json")
    made = json.loads(again.stdout)["result"]["made"]
    assert made == json.loads(explained.stdout)["made"]
    assert (made["seed"], again.exit_code) == (3, 0)


def test_the_ledger_writes_results_as_json_when_told_to(pipeline: Pipeline) -> None:
    (request_id,) = pipeline.submit(1)
    pipeline.wait_all([request_id])
    (record,) = snapshot.past(pipeline.settings, [RESULTS], keep=lambda each: each.key == request_id.encode())
    assert json.loads(record.value or b"")["status"] == "COMPLETED"


def test_a_dead_letter_is_listed_shown_and_sent_again_as_a_new_request(pipeline: Pipeline) -> None:
    value = b'{"promt": "x"}'
    pipeline.write(value, b"user-42")
    pipeline.until(lambda: any(each.key == b"user-42" for each in pipeline.dead_letters), "the letter")
    (kept,) = [each for each in pipeline.dead_letters if each.key == b"user-42"]
    name = kept.headers["pochade_error_request_id"].decode()
    pipeline.wait_all([name])
    (letter,) = [
        row for row in rows(pochade(pipeline.settings, "dlq", "ls", "-o", "jsonl")) if row["request_id"] == name
    ]
    assert (letter["error"], letter["role"], letter["redriven"]) == ("InvalidRequest", "classifier", 0)
    position = str(letter["position"])
    shown = json.loads(pochade(pipeline.settings, "dlq", "show", position, "-o", "json").stdout)
    assert bytes.fromhex(shown["value_hex"]) == value
    done = pochade(pipeline.settings, "dlq", "redrive", position, "-o", "jsonl")
    assert (done.exit_code, rows(done)[0]["request_id"]) == (0, f"{name}-redrive-1")
    (again,) = pipeline.wait_all([f"{name}-redrive-1"])
    assert again.status == Status.REJECTED
    records = snapshot.past(pipeline.settings, [DLQ], keep=lambda each: each.key == f"{name}-redrive-1".encode())
    assert [(each.value, each.headers["pochade_redriven"]) for each in records] == [(value, b"1")]


def test_a_position_that_is_not_there_tells_those_that_are(pipeline: Pipeline) -> None:
    done = pochade(pipeline.settings, "dlq", "show", "0@999999")
    assert done.exit_code == 1
    assert "has no record 0@999999: it holds 0@0 to before" in done.stderr


def test_topics_are_as_the_table_says_and_a_missing_one_is_reported(pipeline: Pipeline) -> None:
    settings = pipeline.settings
    own = 4  # jobs of two variants, and those that wait
    assert len(rows(pochade(settings, "topics", "list", "-o", "jsonl"))) == len(TABLE) + own
    assert pochade(settings, "topics", "diff").exit_code == 0
    done = pochade(settings, "topics", "diff", "--variant", "other", "-o", "jsonl")
    assert done.exit_code == 1
    assert [row["do"] for row in rows(done)] == 2 * ["pochade topics create --variant other"]
    reported = json.loads(pochade(settings, "topics", "describe", "results.v1", "-o", "json").stdout)
    assert (reported["partitions"], reported["config"]["retention.ms"]) == (4, "691200000")


def test_doctor_finds_nothing_wrong_with_a_pipeline_that_serves(pipeline: Pipeline) -> None:
    done = pochade(pipeline.settings, "doctor", "-o", "jsonl")
    reported = {str(row["name"]): row for row in rows(done)}
    assert done.exit_code == 0, done.stdout
    names = ("broker", "consumer groups", "transactions", "topics", "equal partitions", "retention", "rights", "clocks",
             "safety")  # fmt: skip
    assert {name: reported[name]["verdict"] for name in names} == dict.fromkeys(names, "ok")
    assert "2 live" in str(reported["workers"]["found"])
    assert reported["plan"]["verdict"] == "ok"


def test_orphans_are_reported_without_touching_what_any_deployment_names(pipeline: Pipeline) -> None:
    pipeline.wait_all(pipeline.submit(2))
    done = pochade(pipeline.settings, "gc", "--orphans", "--dry-run", "-o", "jsonl")
    reported = {str(row["pictures"]): row for row in rows(done)}
    assert (done.exit_code, reported["orphans"]["count"], reported["old"]["count"]) == (0, 0, 0)
    assert int(str(reported["kept"]["count"])) >= 2


def over_http(pipeline: Pipeline, key: str = "", gateway: str = GATEWAYS[0]) -> httpx.Client:
    """A client of one of the module's gateways, with the module's key or another."""
    address = re.findall(r"images API on (\S+)/v1", pipeline.log(gateway))[-1]
    headers = {"authorization": f"Bearer {key or (pipeline.settings.home / KEY_FILE).read_text()}"}
    return httpx.Client(base_url=address, headers=headers, timeout=PATIENCE_S, trust_env=False)


def is_image(data: bytes, form: str) -> bool:
    with Image.open(io.BytesIO(data)) as image:
        image.load()
        return image.format == form


def test_images_are_asked_for_over_http_and_what_no_model_honours_is_refused_as_by_the_command(
    pipeline: Pipeline,
) -> None:
    with over_http(pipeline) as http:
        answer = http.post("/v1/images/generations", json={"prompt": "a red heart", "n": 2, "output_format": "webp"})
        assert answer.status_code == 200, answer.text
        told = answer.json()
        assert [is_image(base64.b64decode(each["b64_json"]), "WEBP") for each in told["data"]] == [True, True]
        (result,) = pipeline.wait_all([told["pochade"]["request_id"]])
        assert (result.status, result.prompt, result.level) == (
            Status.COMPLETED, "a red heart", told["pochade"]["level"],
        )  # fmt: skip
        by_url = http.post("/v1/images/generations", json={"prompt": "a red heart", "response_format": "url"}).json()
        assert is_image(http.get(by_url["data"][0]["url"]).content, "PNG")
        refused = http.post("/v1/images/generations", json={"prompt": "a red heart", "model": "huge"})
        asked = {"prompt": "a red heart", "stream": True, "partial_images": 3}
        *partials, completed = [
            json.loads(line.removeprefix("data: "))
            for line in http.post("/v1/images/generations", json=asked).text.splitlines()
            if line.startswith("data: ")
        ]
        assert is_image(base64.b64decode(completed["b64_json"]), "PNG")
        assert completed["type"] == "image_generation.completed"
        assert {each["type"] for each in partials} == ({"image_generation.partial_image"} if partials else set())
        empty = http.post("/v1/images/generations", json={"prompt": " "}).json()["error"]
        assert "heavy" in [each["id"] for each in http.get("/v1/models").json()["data"]]
    by_command = pochade(pipeline.settings, "submit", "a red heart", "--model", "huge")
    error = refused.json()["error"]
    assert (refused.status_code, error["code"], error["param"]) == (404, "model_not_found", "model")
    assert by_command.exit_code == 2
    assert all("'huge'" in text and "heavy" in text for text in (error["message"], by_command.stderr))
    assert empty["message"].partition(" (request")[0] in pochade(pipeline.settings, "submit", " ").stderr
    ask_metrics = re.findall(r"health and metrics on (\S+)/livez", pipeline.log("gateway"))[-1]
    counted = httpx.get(f"{ask_metrics}/metrics", trust_env=False).text
    assert 'pochade_gateway_requests_total{handler="generate",status="200"} 3.0' in counted


def test_a_key_is_known_to_every_gateway_and_once_revoked_refused_by_each_within_a_second(pipeline: Pipeline) -> None:
    settings = pipeline.settings
    made = json.loads(pochade(settings, "keys", "create", "studio", "-o", "json").stdout)
    with contextlib.ExitStack() as stack:
        gateways = [stack.enter_context(over_http(pipeline, made["key"], name)) for name in GATEWAYS]
        answers = [http.post("/v1/images/generations", json={"prompt": "a red heart"}) for http in gateways]
        assert [answer.status_code for answer in answers] == [200, 200], [answer.text for answer in answers]
        ids = [answer.json()["pochade"]["request_id"] for answer in answers]
        assert {each.tenant for each in pipeline.wait_all(ids)} == {"studio"}
        pipeline.until(lambda: gateways[0].get(f"/v1/predictions/{ids[1]}").status_code == 200, "the other's job")
        with over_http(pipeline) as other:
            assert [other.get(f"/v1/predictions/{each}").status_code for each in ids] == [404, 404]
            assert not set(ids) & {each["id"] for each in other.get("/v1/predictions").json()["results"]}
        took_s = sorted(refused_within_s(settings, gateways) for _ in range(3))
        assert took_s[1] < 1, took_s  # the middle one: a busy machine may hold one up
        assert pochade(settings, "keys", "revoke", made["id"]).exit_code == 0
        for http in gateways:
            pipeline.until(lambda http=http: http.get("/v1/models").status_code == 401, "the key is refused")
            assert "was revoked" in http.get("/v1/models").json()["detail"]
    assert made["key"] not in "".join(pipeline.log(name) for name in GATEWAYS)


def refused_within_s(settings: Settings, gateways: list[httpx.Client]) -> float:
    """Seconds from the revocation of a new key on the topic until the last of the gateways refuses it."""
    key, known = new_key("studio", SCOPES, now_ms())
    headers = {"authorization": f"Bearer {key}"}
    store(settings, known)
    for http in gateways:
        poll_until(lambda http=http: http.get("/v1/models", headers=headers).status_code == 200, "the key holds")
    store(settings, dataclasses.replace(known, revoked_ms=now_ms()))
    begun_s = time.monotonic()  # from when the broker has it: opening a producer takes its time on a busy machine
    for http in gateways:
        poll_until(lambda http=http: http.get("/v1/models", headers=headers).status_code == 401, "the key is refused")
    return time.monotonic() - begun_s


def ids_of(stream: str) -> list[str]:
    """The ids of a stream's events."""
    return [line.removeprefix("id: ") for line in stream.splitlines() if line.startswith("id: ")]


def deliverer(pipeline: Pipeline) -> str:
    """The gateway that delivers webhooks; "" while none does."""
    gained = [name for name in GATEWAYS if "this gateway delivers webhooks" in pipeline.log(name)]
    return gained[0] if len(gained) == 1 else ""


def test_predictions_and_their_webhooks_outlive_the_gateway_that_took_and_delivered_them(
    pipeline: Pipeline, receiver: Receiver
) -> None:
    with over_http(pipeline) as http:
        asked = {"input": {"prompt": "a red house"}, "webhook": f"{receiver.origin}/?a=secret"}
        hooked = http.post("/v1/predictions", json={**asked, "webhook_events_filter": ["completed"]}).json()
        pipeline.until(lambda: bool(receiver.tried) and bool(deliverer(pipeline)), "an attempt that fails")
        secret = http.get("/v1/webhooks/default/secret").json()["key"]
    taker = deliverer(pipeline)
    with over_http(pipeline, gateway=taker) as http:
        begun = http.post("/v1/predictions", json={"input": {"prompt": "a blue boat"}}).json()
        waited = http.post("/v1/predictions", json={"input": {"prompt": "a star"}}, headers={"prefer": "wait"}).json()
        assert waited["status"] == "succeeded", waited
        assert waited["metrics"]["predict_time"] > 0
        assert is_image(http.get(waited["output"][0]).content, "PNG")
        doomed = http.post(
            "/v1/predictions", json={"input": {"prompt": "a green tree", "n": 8}}, headers={"cancel-after": "1m"}
        ).json()
        cancelled = http.post(doomed["urls"]["cancel"]).json()
        stream = waited["urls"]["stream"].partition("/v1/")[2]
        ids = ids_of(http.get(f"/v1/{stream}").text)
    assert ids[-2:] == ["1.0", "2.0"]
    assert cancelled["status"] in ("canceled", "succeeded")  # which of both came first
    pipeline.kill(taker)
    receiver.takes.set()
    pipeline.until(lambda: bool(receiver.taken), "the other gateway delivers")
    (headers, body), *_ = receiver.taken
    assert {headers["webhook-id"]} == set(receiver.tried)
    assert is_signed({name.lower(): value for name, value in headers.items()}, body, secret)
    assert (json.loads(body)["id"], json.loads(body)["status"]) == (hooked["id"], "succeeded")
    assert "a=secret" not in "".join(map(pipeline.log, GATEWAYS))
    pipeline.heal()
    pipeline.until(pipeline.is_ready, "another gateway")
    with over_http(pipeline, gateway=taker) as http:
        path = f"/v1/predictions/{begun['id']}"
        pipeline.until(lambda: http.get(path).json().get("status") == "succeeded", "the other gateway tells its end")
        assert is_image(http.get(waited["output"][0].partition("/v1/")[2].join(("/v1/", ""))).content, "PNG")
        assert ids_of(http.get(f"/v1/{stream}", headers={"last-event-id": ids[0]}).text) == ids[1:]
        listed = {each["id"]: each["status"] for each in http.get("/v1/predictions").json()["results"]}
    assert listed[waited["id"]] == listed[begun["id"]] == "succeeded"
    assert listed[doomed["id"]] == cancelled["status"]


def test_clients_that_repeat_what_a_killed_gateway_did_not_answer_get_it_and_nothing_is_generated_twice(
    pipeline: Pipeline,
) -> None:
    bodies = [{"prompt": f"a red heart, again {n}", "n": 8} for n in (1, 2, 2)]  # two are equal, and two requests

    def tried(body: dict[str, Any], tries: int) -> str:
        with over_http(pipeline) as http:
            headers = {"x-stainless-retry-count": str(tries)}
            told = http.post("/v1/images/generations", json=body, headers=headers).json()
        return str(told["pochade"]["request_id"])

    def begun() -> set[str]:
        listed = http.get("/v1/predictions").json()["results"]
        return {each["id"] for each in listed if "again" in each["input"]["prompt"]}

    with ThreadPoolExecutor(len(bodies)) as many:
        with over_http(pipeline) as http:
            cut = [many.submit(tried, body, 0) for body in bodies]
            pipeline.until(lambda: len(begun()) == len(bodies), "all are on the topic")
            first = begun()
            pipeline.kill("gateway")
        for each in cut:
            with contextlib.suppress(httpx.TransportError):
                each.result(PATIENCE_S)
        pipeline.heal()
        pipeline.until(pipeline.is_ready, "another gateway")
        repeated = [each.result(PATIENCE_S) for each in [many.submit(tried, body, 1) for body in bodies]]
        assert set(repeated) == first
        assert [many.submit(tried, body, 2).result(PATIENCE_S) for body in bodies[:1]] == repeated[:1]
    pipeline.wait_all(sorted(first))
    assert {each.request_id for each in pipeline.results if "again" in each.prompt} == first
