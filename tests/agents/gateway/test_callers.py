"""Who may ask over HTTP where keys are asked for: what holders get, and what everybody else does, each counted."""

import dataclasses
import logging
from typing import Any

import httpx
import pytest
from prometheus_client import REGISTRY

from schemas.messages import Event, GenerateRequest
from schemas.topics import OUTCOMES
from streams.codec.avro import decode
from streams.security.api_keys import digest_of
from streams.settings import Gateway
from tests.agents.gateway.deployment import Deployment, ended, tell
from tests.agents.gateway.test_app import HEART, png, spoken
from tests.builders import NOW_MS, a_request

IMAGES, JOBS = "/v1/images/generations", "/v1/predictions"


def keyed(**limits: Any) -> Deployment:
    return Deployment(Gateway(authentication="bearer", **limits))


def asked(
    deployment: Deployment, key: str | None, path: str = IMAGES, body: Any = HEART, **headers: str
) -> httpx.Response:
    """The answer to a holder of a key; `body` None: of GET."""
    sent = headers | ({} if key is None else {"authorization": f"Bearer {key}"})
    answer: httpx.Response = spoken(
        deployment,
        lambda http: http.request("GET" if body is None else "POST", path, json=body, headers=sent),
    )
    return answer


def refused(why: str) -> float:
    return REGISTRY.get_sample_value("pochade_gateway_keys_refused_total", {"why": why}) or 0.0


def code(answer: httpx.Response) -> str:
    said: str = answer.json()["error"]["code"]
    return said


def test_a_request_is_of_the_tenant_of_its_key_and_its_images_need_no_key() -> None:
    deployment = keyed()
    deployment.ends(png())
    answer = asked(deployment, deployment.key("studio"), body={**HEART, "response_format": "url"})
    assert answer.status_code == 200, answer.text
    assert deployment.asked().tenant == "studio"
    assert asked(deployment, None, answer.json()["data"][0]["url"], None).content == png()


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "Token"])
def test_both_words_that_clients_of_replicate_put_before_a_key_will_do(scheme: str) -> None:
    deployment = keyed()
    answer = asked(deployment, None, JOBS, {"input": HEART}, authorization=f"{scheme} {deployment.key('studio')}")
    assert answer.status_code == 201, answer.text
    assert deployment.asked().tenant == "studio"


@pytest.mark.parametrize(
    ("authorization", "why"),
    [
        (None, "missing"),
        ("", "malformed"),
        ("{key}", "malformed"),
        ("Basic {key}", "malformed"),
        ("Bearer", "malformed"),
        ("Bearer sk-{key}", "malformed"),
        ("Bearer pochade_" + "a" * 10_000, "malformed"),
        ("Bearer {key}x", "unknown"),
        ("Bearer pochade_{digest}", "unknown"),
        ("Bearer pochade_*", "unknown"),
    ],
)
@pytest.mark.parametrize("path", [IMAGES, JOBS, "/v1/models", "/v1/nothing/v1/files/x", "/v1//files/x"])
def test_guessed_keys_are_refused_everywhere_in_the_shape_of_each_api_and_counted(
    authorization: str | None, why: str, path: str
) -> None:
    deployment, before = keyed(), refused(why)
    key = deployment.key()
    headers = {} if authorization is None else {"authorization": authorization.format(key=key, digest=digest_of(key))}
    answer = asked(deployment, None, path, None if "models" in path else HEART, **headers)
    told = answer.json()
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert (told["error"]["code"], told["error"]["type"]) == ("invalid_api_key", "invalid_request_error")
    assert (told["status"], told["detail"]) == (401, told["error"]["message"])
    assert refused(why) == before + 1
    assert deployment.producer.topics == {}


def test_two_keys_in_one_request_are_refused() -> None:
    deployment = keyed()
    headers = [("authorization", f"Bearer {deployment.key()}"), ("authorization", f"Bearer {deployment.key()}")]
    assert spoken(deployment, lambda http: http.get("/v1/models", headers=headers)).status_code == 401


def test_a_revoked_and_an_expired_key_are_refused_and_another_of_the_tenant_holds() -> None:
    deployment = keyed()
    old, new = deployment.key(expires_ms=NOW_MS + 1000), deployment.key()
    assert [asked(deployment, key, JOBS, None).status_code for key in (old, new)] == [200, 200]
    before = refused("revoked"), refused("expired")
    deployment.now_ms += 1000
    assert "expired" in asked(deployment, old, JOBS, None).json()["detail"]
    known = deployment.ring.find(new, deployment.now_ms)
    assert not isinstance(known, str)
    deployment.tell_key(dataclasses.replace(known, revoked_ms=deployment.now_ms))
    assert "revoked" in asked(deployment, new, JOBS, None).json()["detail"]
    assert (refused("revoked"), refused("expired")) == (before[0] + 1, before[1] + 1)


def test_a_key_does_what_its_scopes_say_and_nothing_else() -> None:
    deployment, before = keyed(), refused("scope")
    deployment.ends(png())
    reads, generates = deployment.key("studio", "read"), deployment.key("studio", "generate")
    made = asked(deployment, generates)
    job = f"{JOBS}/{made.json()['pochade']['request_id']}"
    assert asked(deployment, reads, job, None).json()["status"] == "succeeded"
    for key, path, body, needed in (
        (reads, IMAGES, HEART, "generate"),
        (reads, JOBS, {"input": HEART}, "generate"),
        (reads, f"{job}/cancel", {}, "generate"),
        (generates, job, None, "read"),
        (generates, JOBS, None, "read"),
        (generates, "/v1/models", None, "read"),
    ):
        answer = asked(deployment, key, path, body)
        assert (answer.status_code, code(answer)) == (403, "missing_scope")
        assert f"the scope {needed}" in answer.json()["detail"]
        assert key not in answer.text
    assert refused("scope") == before + 6
    assert len(deployment.written()) == 1


def test_who_may_look_may_ask_for_the_head_of_an_answer_and_who_may_only_generate_may_not() -> None:
    deployment = keyed()
    for scope, status in (("read", 200), ("generate", 403)):
        headers = {"authorization": f"Bearer {deployment.key('studio', scope)}"}
        assert (
            spoken(deployment, lambda http, sent=headers: http.head("/v1/models", headers=sent)).status_code == status
        )


def test_jobs_of_another_tenant_are_neither_told_nor_listed_nor_cancelled() -> None:
    deployment = keyed()
    mine, other = deployment.key("studio"), deployment.key("other")
    job = asked(deployment, mine, JOBS, {"input": HEART}).json()
    path = f"{JOBS}/{job['id']}"
    answers = [asked(deployment, other, path, None), asked(deployment, other, f"{path}/cancel", {})]
    unknown = asked(deployment, other, f"{JOBS}/{'0' * 36}", None)
    assert {answer.status_code for answer in (*answers, unknown)} == {404}
    assert answers[0].json()["detail"].replace(job["id"], "0" * 36) == unknown.json()["detail"]
    assert deployment.written(OUTCOMES) == []
    assert asked(deployment, other, JOBS, None).json()["results"] == []
    assert [each["id"] for each in asked(deployment, mine, JOBS, None).json()["results"]] == [job["id"]]
    tell(deployment.jobs, Event(request_id=job["id"], kind="started", at_ms=NOW_MS, by="worker"))
    tell(deployment.jobs, ended(job["id"], tenant="studio", image_uris=()))
    assert asked(deployment, other, path, None).status_code == 404


def test_jobs_of_tenants_without_a_key_are_not_even_remembered() -> None:
    deployment = keyed()
    deployment.key("studio")
    for tenant in ("default", "others"):
        tell(deployment.jobs, a_request(request_id=f"of-{tenant}", tenant=tenant))
    tell(deployment.jobs, a_request(request_id="mine", tenant="studio"))
    assert deployment.jobs._tenants == {"mine": "studio"}


def test_a_tenant_cannot_join_the_equal_request_of_another() -> None:
    deployment = keyed()
    deployment.ends(png())
    keys = deployment.key("studio"), deployment.key("other")
    for headers in ({"idempotency-key": "one"}, {"x-stainless-retry-count": "1"}):
        first = asked(deployment, keys[0], **{**headers, "x-stainless-retry-count": "0"})
        second = asked(deployment, keys[1], **headers)
        ids = [each.json()["pochade"]["request_id"] for each in (first, second)]
        assert len(set(ids)) == 2
        again = asked(deployment, keys[0], **headers)
        assert again.json()["pochade"]["request_id"] == ids[0]
    tenants = [decode(record.value or b"", GenerateRequest).tenant for record in deployment.written()]
    assert tenants == ["studio", "other"] * 2


def test_a_body_cannot_name_a_tenant() -> None:
    deployment = keyed()
    key = deployment.key("studio")
    assert asked(deployment, key, body={**HEART, "tenant": "other"}).status_code == 400
    assert asked(deployment, key, JOBS, {"input": {**HEART, "tenant": "other"}}).status_code == 400
    assert deployment.producer.topics == {}


def test_who_guesses_on_is_told_to_wait_and_a_key_that_holds_is_served_all_the_same() -> None:
    deployment, before = keyed(max_failures=3), refused("too-many")
    key = deployment.key()
    codes = [asked(deployment, f"pochade_{n}", JOBS, None).status_code for n in range(5)]
    assert codes == [401, 401, 401, 429, 429]
    assert refused("too-many") == before + 2
    limited = asked(deployment, "pochade_5", JOBS, None)
    assert (code(limited), limited.headers["retry-after"]) == ("too-many-keys", "20")
    assert asked(deployment, key, JOBS, None).status_code == 200
    deployment.now_ms += 20_000
    assert asked(deployment, "pochade_6", JOBS, None).status_code == 401


def test_neither_a_key_nor_what_stands_in_its_place_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    deployment = keyed()
    key = deployment.key("studio", "read")
    with caplog.at_level(logging.DEBUG, "agents"):
        asked(deployment, "pochade_forged\x1b[2K 12:00:00 INFO forged line")
        asked(deployment, None, "/v1/models/%0d%0a12:00:00%20INFO%20forged", None)
        asked(deployment, key, "/v1/x%0d%0aset-cookie:%20forged", None)
        asked(deployment, key)
    said = [record.getMessage() for record in caplog.records if record.name.startswith("agents.")]
    assert [line.partition(":")[0] for line in said] == [
        "rejected an API key from 127.0.0.1",
        "rejected an API key from 127.0.0.1",
        f"rejected a request beyond the scope of API key {digest_of(key)[:16]}",
    ]
    assert not any("forged" in line or key in line for line in said)


def test_an_answer_takes_no_header_from_what_was_sent() -> None:
    deployment = keyed()
    key = deployment.key()
    for path, body, headers in (
        ("/v1/x%0d%0aset-cookie:%20a=b", None, {}),
        ("/v1/models/x%0d%0aset-cookie:%20a=b", None, {}),
        (JOBS, {"input": HEART}, {"prefer": "wait=\tset-cookie: a=b"}),
        (JOBS, {"input": HEART}, {"x-request-id": "forged", "host": "evil.example"}),
    ):
        answer = asked(deployment, key, path, body, **headers)
        assert answer.headers["content-type"] == "application/json"
        assert "set-cookie" not in answer.headers
        assert answer.headers["x-request-id"] != "forged"


def test_pages_of_stated_origins_may_ask_and_read_what_they_get_and_others_may_not() -> None:
    deployment = keyed(origins=("https://studio.example",))
    deployment.ends(png())
    ask = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,content-type"}
    key = deployment.key()
    allowed, other = spoken(
        deployment,
        *(
            lambda http, origin=origin: http.options(IMAGES, headers={"origin": origin, **ask})
            for origin in ("https://studio.example", "https://evil.example")
        ),
    )
    assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (200, "https://studio.example")
    assert other.status_code == 403
    answer = asked(deployment, key, origin="https://studio.example")
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, "https://studio.example")
    assert "retry-after" in answer.headers["access-control-expose-headers"]
    unkeyed = asked(deployment, None, origin="https://studio.example")
    assert (unkeyed.status_code, unkeyed.headers["access-control-allow-origin"]) == (401, "https://studio.example")
    assert asked(deployment, key, origin="https://studio.example.evil.example").status_code == 403


def test_addresses_are_those_of_the_proxy_that_clients_ask() -> None:
    deployment = keyed(public_url="https://images.example.org")
    job = asked(deployment, deployment.key(), JOBS, {"input": HEART}, host="evil.example").json()
    assert job["urls"]["get"] == f"https://images.example.org{JOBS}/{job['id']}"
