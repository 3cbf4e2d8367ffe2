"""Who sees the console and who may change something."""

import asyncio
import dataclasses
import re
from functools import partial

import httpx
import pytest
from starlette.types import Message

from agents.console.access.sessions import COOKIE
from schemas.errors import PochadeError
from schemas.messages import OperatorAction
from schemas.topics import ACTIONS, KEYS, OUTCOMES, PROMPTS
from streams.codec.avro import decode, encode
from streams.security.api_keys import digest_of
from streams.settings import InvalidSettings, load
from tests.agents.console.deployment import Deployment, token_in
from tests.builders import a_request

SCREENS = ("/", "/requests", "/gallery", "/try", "/fleet", "/plan", "/quality", "/dead-letters", "/checks", "/what-if")


def keyed() -> Deployment:
    return Deployment(authentication="keys")


@pytest.mark.parametrize("path", [*SCREENS, "/requests/r-1", "/live/now", "/images/x.y"])
def test_without_a_key_nothing_is_seen_where_keys_are_asked_for(path: str) -> None:
    answer = keyed().page(path)
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")


@pytest.mark.parametrize(("scope", "sees"), [("viewer", 303), ("operator", 303), ("read", 403), ("generate", 403)])
def test_only_keys_for_the_console_sign_in(scope: str, sees: int) -> None:
    deployment = keyed()
    key = deployment.key(scope)
    signed = deployment.talk(lambda http: http.post("/sign-in", data={"key": key}))[0]
    assert signed.status_code == sees
    cookie = signed.headers.get("set-cookie", "")
    assert ("HttpOnly" in cookie and "SameSite=Strict" in cookie) == (sees == 303)
    assert key not in cookie + signed.text


def test_a_revoked_key_ends_its_sessions() -> None:
    deployment = keyed()
    key = deployment.key("viewer")

    async def looked() -> list[int]:
        async with deployment.http() as http:
            await http.post("/sign-in", data={"key": key})
            before = await http.get("/")
            known = deployment.ring.with_id(digest_of(key)[:16])
            assert known is not None
            deployment.tell(dataclasses.replace(known, revoked_ms=deployment.now_ms))
            return [before.status_code, (await http.get("/")).status_code]

    assert asyncio.run(looked()) == [200, 303]


def test_a_session_ends_with_its_time() -> None:
    deployment = Deployment(authentication="keys", session_s=60)
    key = deployment.key("viewer")

    async def looked() -> int:
        async with deployment.http() as http:
            await http.post("/sign-in", data={"key": key})
            deployment.now_ms += 60_000
            return (await http.get("/")).status_code

    assert asyncio.run(looked()) == 303


def test_a_forged_cookie_is_nobody() -> None:
    deployment = keyed()
    headers = {"cookie": "pochade_console=WyJhIiw5OTk5OTk5OTk5OTk5OTksImIiXQ.AAAA"}
    assert deployment.talk(lambda http: http.get("/", headers=headers))[0].status_code == 303


def test_a_viewer_sees_no_forms_that_change_something_and_its_own_are_refused() -> None:
    deployment = keyed()
    deployment.tell(a_request(request_id="r-1"))
    key = deployment.key("viewer")
    answer = deployment.form("/plan", "/requests/r-1/cancel", key=key)
    assert answer.status_code == 403
    assert "scope operator" in answer.text
    assert not deployment.written(OUTCOMES)
    assert not deployment.written(ACTIONS)


def test_a_form_without_its_sessions_token_changes_nothing() -> None:
    deployment = Deployment()
    deployment.tell(a_request(request_id="r-1"))
    for token in ("", "0" * 40, "\N{LATIN SMALL LETTER E WITH ACUTE}"):
        cancel = partial(httpx.AsyncClient.post, url="/requests/r-1/cancel", data={"token": token})
        assert deployment.talk(cancel)[0].status_code == 403
    other = token_in(deployment.page("/try").text)
    assert other
    foreign = deployment.talk(lambda http: http.post("/requests", data={"token": other, "prompt": "a"}))
    assert foreign[0].status_code == 403
    assert not deployment.producer.topics


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1:9999", "http://localhost:8770", "http://[", "http://"]
)
def test_a_page_of_another_site_changes_nothing(origin: str) -> None:
    deployment = Deployment()
    text = deployment.page("/try").text
    data = {"token": token_in(text), "prompt": "a red heart"}
    answer = deployment.talk(lambda http: http.post("/requests", data=data, headers={"origin": origin}))[0]
    assert answer.status_code == 403
    assert not deployment.written(PROMPTS)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "10.0.0.1:8770"])
def test_without_keys_a_name_of_another_site_that_leads_here_sees_nothing(host: str) -> None:
    answer = Deployment().talk(lambda http: http.get("/", headers={"host": host}))[0]
    assert answer.status_code == 403


def test_every_page_forbids_what_is_not_its_own_and_has_no_script_or_style_within() -> None:
    deployment = Deployment(prompts="clear")
    deployment.tell(a_request(request_id="r-1", prompt="<script>alert(1)</script>"))
    for path in (*SCREENS, "/requests/r-1", "/nothing"):
        answer = deployment.page(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy, path
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert not re.search(r"<script(?![^>]* src=)|<style| style=| on\w+=|javascript:", answer.text), path


def test_a_change_is_written_down_before_it_is_done_and_once_it_is() -> None:
    deployment = Deployment(authentication="keys")
    key = deployment.key("operator", name="night shift")
    deployment.form("/try", "/requests", key=key, prompt="a red heart")
    records = [decode(record.value or b"", OperatorAction) for record in deployment.written(ACTIONS)]
    assert [(each.action, each.name, bool(each.outcome)) for each in records] == [
        ("submit", "night shift", False), ("submit", "night shift", True),
    ]  # fmt: skip
    assert records[0].by == digest_of(key)[:16]
    assert all("a red heart" not in each.detail for each in records)


def test_what_cannot_be_written_down_is_not_done() -> None:
    deployment = Deployment()

    def fails(record: object) -> None:
        if getattr(record, "topic", "") == ACTIONS:
            raise PochadeError("the broker is away")

    deployment.on_send = fails
    assert deployment.form("/try", "/requests", prompt="a red heart").status_code == 400
    assert not deployment.written(PROMPTS)


def test_a_console_that_others_reach_needs_keys_and_tls() -> None:
    with pytest.raises(InvalidSettings, match="authentication is none"):
        load({"console": {"host": "0.0.0.0"}})
    with pytest.raises(InvalidSettings, match="tls"):
        load({"console": {"host": "0.0.0.0", "authentication": "keys"}})


def test_too_many_wrong_keys_are_told_to_wait_and_a_right_one_is_served() -> None:
    deployment = Deployment(authentication="keys", max_failures=2)
    key = deployment.key("viewer")

    def tries(shown: str) -> httpx.Response:
        return deployment.talk(lambda http: http.post("/sign-in", data={"key": shown}))[0]

    assert [tries("pochade_wrong").status_code for _ in range(3)] == [403, 403, 429]
    assert tries(key).status_code == 303


def test_signing_out_ends_the_session_for_a_copy_of_its_cookie_and_in_other_consoles() -> None:
    deployment, other = keyed(), keyed()
    key = deployment.key("viewer")
    known = deployment.ring.with_id(digest_of(key)[:16])
    assert known is not None
    other.ring.on_record(deployment.record(KEYS, known.key_id, encode(known)))

    async def copied() -> str:
        async with deployment.http() as http:
            await http.post("/sign-in", data={"key": key})
            cookie = http.cookies[COOKIE]
            token = token_in((await http.get("/")).text)
            assert (await http.post("/sign-out", data={"token": token})).status_code == 303
            return cookie

    cookie = asyncio.run(copied())
    assert deployment.sessions.find(cookie) is None
    assert other.sessions.find(cookie) is not None
    for record in deployment.written(ACTIONS):
        other.view.on_action(deployment.record(ACTIONS, "a", record.value), other.sessions.on_action)
    assert other.sessions.find(cookie) is None


def test_a_form_that_is_too_large_or_of_another_kind_is_refused() -> None:
    deployment = Deployment()
    text = deployment.page("/try").text
    token = token_in(text)
    large = {"token": token, "prompt": "a" * 70_000}
    posts = [
        partial(httpx.AsyncClient.post, url="/requests", data=large),
        partial(httpx.AsyncClient.post, url="/requests", json={"token": token, "prompt": "a"}),
        partial(httpx.AsyncClient.post, url="/requests", files={"token": ("t", token)}),
    ]
    assert [answer.status_code for answer in deployment.talk(*posts)] == [413, 415, 415]
    assert not deployment.written(PROMPTS)


def test_a_form_that_does_not_come_is_not_waited_for() -> None:
    deployment, answers = Deployment(authentication="keys", client_timeout_s=0.05), list[Message]()
    headers = [
        (b"host", b"127.0.0.1"),
        (b"content-type", b"application/x-www-form-urlencoded"),
        (b"content-length", b"9"),
    ]
    scope = {"type": "http", "method": "POST", "path": "/sign-in", "query_string": b"", "headers": headers}

    async def nothing() -> Message:
        return await asyncio.Future()

    async def taken(message: Message) -> None:
        answers.append(message)

    asyncio.run(deployment.app(scope, nothing, taken))
    assert answers[0]["status"] == 408


def test_a_live_page_ends_as_its_key_is_revoked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.console.live.TICK_S", 0.01)
    deployment = keyed()
    key = deployment.key("viewer")
    known = deployment.ring.with_id(digest_of(key)[:16])
    assert known is not None

    async def watched() -> str:
        async with deployment.http() as http:
            await http.post("/sign-in", data={"key": key})
            loop = asyncio.get_running_loop()
            loop.call_later(0.1, deployment.tell, dataclasses.replace(known, revoked_ms=deployment.now_ms))
            return (await asyncio.wait_for(http.get("/live/now"), 20)).text  # it would not end by itself

    assert "event: part" in asyncio.run(watched())
