"""`pochade-client` against a live pipeline: one contract for both transports, and by name what either lacks."""

import asyncio
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from pochade import (
    AsyncClient,
    Cancelled,
    Client,
    Completed,
    Expired,
    Gateway,
    Kafka,
    NotFound,
    Refused,
    Rejected,
    StillOpen,
    Unsupported,
)

from streams.kafka.clients import client_config
from streams.kafka.topics import create_topics
from streams.settings import Settings, load
from tests.integration.conftest import delete_topics
from tests.integration.pipeline import ROLES, Pipeline
from tests.paths import ROOT
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.broker

PNG = b"\x89PNG"
README = ROOT / "streams" / "client" / "README.md"


@pytest.fixture(scope="module")
def port() -> int:
    """A port for the gateway that it has again after a restart."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        found: int = free.getsockname()[1]
        return found


@pytest.fixture(scope="module")
def pipeline(broker_home, tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[Pipeline]:  # type: ignore[no-untyped-def]
    """One pipeline with a gateway for the module."""
    settings: Settings = load({"home": broker_home, "kafka": {"prefix": "client-contract"}})
    create_topics(settings, ["light", "heavy"])
    running = Pipeline(
        settings,
        tmp_path_factory.mktemp("logs"),
        extra=[f"gateway.port={port}"],
        roles={**ROLES, "gateway": ["gateway"]},
    )
    try:
        yield running.start()
    finally:
        running.close()
        delete_topics(settings)


Transport = Gateway | Kafka
Opens = Callable[[str], Transport]


@pytest.fixture
def opened(pipeline: Pipeline, port: int, monkeypatch: pytest.MonkeyPatch) -> Opens:
    """Makes a transport by its name; `kafka alone` has no gateway beside it."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    def opens(name: str) -> Transport:
        gateway = Gateway(f"http://127.0.0.1:{port}")
        if name == "http":
            return gateway
        settings = pipeline.settings
        beside = None if name == "kafka alone" else gateway
        return Kafka(client_config(settings), prefix=settings.kafka.prefix, gateway=beside)

    return opens


both = pytest.mark.parametrize("name", ["http", "kafka"])


@both
def test_an_image_is_generated_and_read_and_its_end_explained(opened: Opens, name: str) -> None:
    with Client(opened(name)) as client:
        completed = client.generate("a red heart", seed=7, n=2, timeout_s=PATIENCE_S)
        assert [client.read(image)[:4] for image in completed.images] == [PNG, PNG]
        assert completed.level in ("light", "heavy")
        explained = client.handle(completed.request_id).explain()
        assert completed.level in {stage["level"] for stage in explained.path}
        assert "seed 7" in (explained.asked or "")
        assert explained.why


@both
def test_another_process_goes_on_with_a_request_by_its_id(opened: Opens, name: str) -> None:
    with Client(opened(name)) as first:
        request_id = first.submit("a blue boat").request_id
    with Client(opened(name)) as second:
        end = second.handle(request_id).result(PATIENCE_S)
        assert isinstance(end, Completed)
        *_, last = second.handle(request_id).events()
        assert last.end == end
        assert second.handle(request_id).result(PATIENCE_S) == end


@both
def test_events_lead_to_the_end_and_go_on_behind_a_position(opened: Opens, name: str) -> None:
    with Client(opened(name)) as client:
        handle = client.submit("a black cat")
        events = list(handle.events())
        started = next(event for event in events if event.kind == "started")
        assert started.details["level"] in ("light", "heavy")
        assert isinstance(events[-1].end, Completed)
        again = list(handle.events(after=started.position))
        assert started.position not in [event.position for event in again[:-1]]
        assert again[-1].end == events[-1].end


@both
def test_equal_calls_with_one_key_are_one_request_wherever_they_come_from(
    pipeline: Pipeline, opened: Opens, name: str
) -> None:
    with Client(opened(name)) as one, Client(opened(name)) as other, ThreadPoolExecutor() as threads:
        asked = [
            threads.submit(client.submit, "a star", idempotency_key=f"order-{name}", deadline_s=deadline_s)
            for client, deadline_s in ((one, 60.0), (other, 61.0), (one, 62.0))
        ]
        (request_id,) = {each.result().request_id for each in asked}
        assert isinstance(one.handle(request_id).result(PATIENCE_S), Completed)
    pipeline.wait_all([request_id])


@both
def test_cancelling_after_the_end_changes_nothing(opened: Opens, name: str) -> None:
    with Client(opened(name)) as client:
        handle = client.submit("a small dog")
        end = handle.result(PATIENCE_S)
        handle.cancel()
        handle.cancel()
        assert handle.result(PATIENCE_S) == end
    with Client(opened(name)) as another:
        assert another.handle(handle.request_id).result(PATIENCE_S) == end


@both
def test_an_option_that_no_model_honours_is_named(opened: Opens, name: str) -> None:
    """The gateway refuses it before it is a request; over Kafka that is how the request ends."""
    with Client(opened(name)) as client:
        if name == "http":
            with pytest.raises(Refused, match="'huge'") as raised:
                client.submit("a red heart", model="huge")
            assert (raised.value.status, raised.value.param) == (404, "model")
        else:
            end = client.submit("a red heart", model="huge").result(PATIENCE_S)
            assert isinstance(end, Rejected)
            assert (end.param, end.retry_after_s) == ("model", None)
            assert "'huge'" in end.reason


@both
def test_an_unknown_id_has_no_end(opened: Opens, name: str) -> None:
    with Client(opened(name)) as client, pytest.raises(NotFound if name == "http" else StillOpen, match="none-such"):
        client.handle("none-such").result(2)


@both
def test_twenty_requests_are_generated_side_by_side_on_one_event_loop(opened: Opens, name: str) -> None:
    async def run() -> list[Completed]:
        async with AsyncClient(opened(name)) as client:
            asked = [client.generate(f"a heart, {n}", timeout_s=PATIENCE_S) for n in range(20)]
            return await asyncio.gather(*asked)

    assert len({each.request_id for each in asyncio.run(run())}) == 20


def test_what_waits_is_still_open_and_may_be_cancelled_or_expire(pipeline: Pipeline, opened: Opens) -> None:
    """Nothing is classified meanwhile, so that no request ends by itself."""
    pipeline.kill("classifier")
    with Client(opened("http")) as http, Client(opened("kafka")) as kafka:
        for client in (http, kafka):
            handle = client.submit("a green tree")
            with pytest.raises(StillOpen, match=handle.request_id):
                handle.result(0.5)
            handle.cancel()
            end = handle.result(PATIENCE_S)
            assert isinstance(end, Cancelled)
            assert end.code == "cancelled"
        late = [client.submit("a green tree", deadline_s=0.5) for client in (http, kafka)]
        pipeline.heal()
        for handle in late:
            assert isinstance(handle.result(PATIENCE_S), Expired)


def test_a_gateway_that_is_killed_between_submission_and_end_is_waited_for(pipeline: Pipeline, opened: Opens) -> None:
    with Client(opened("http")) as client:
        handle = client.submit("a red house")
        pipeline.kill("gateway")
        with ThreadPoolExecutor() as threads:
            waiting = threads.submit(handle.result, PATIENCE_S)
            following = threads.submit(lambda: list(handle.events()))
            pipeline.heal()
            assert isinstance(waiting.result(), Completed)
            assert following.result()[-1].kind == "ended"


def test_how_all_requests_ended_is_listed_over_kafka_alone(opened: Opens) -> None:
    with Client(opened("kafka alone")) as client:
        first = client.generate("a red heart", timeout_s=PATIENCE_S)
        listed = {end.request_id: end for end in client.ends(3600)}
        assert listed[first.request_id] == first
        following = client.ends(3600, is_following=True)
        second = client.submit("a red heart").request_id
        assert second in (end.request_id for end in following)
    with Client(opened("http")) as http, pytest.raises(Unsupported, match="over Kafka"):
        http.ends()


def test_what_kafka_alone_lacks_says_which_transport_has_it(opened: Opens) -> None:
    with Client(opened("kafka alone")) as client:
        completed = client.generate("a red heart", timeout_s=PATIENCE_S)
        for call in (
            lambda: client.read(completed.images[0]),
            client.handle(completed.request_id).explain,
            lambda: client.submit("a", image=PNG),
        ):
            with pytest.raises(Unsupported, match="gateway=Gateway"):
                call()


def test_an_uploaded_file_reaches_the_gateway_over_either_transport(opened: Opens) -> None:
    for name in ("http", "kafka"):
        with Client(opened(name)) as client, pytest.raises(Refused, match="begins with no image") as raised:
            client.submit("a blue boat", image=b"<svg/>", strength=0.5)
        assert raised.value.param == "image"


def test_the_blocks_of_the_readme_run_as_they_stand(
    pipeline: Pipeline, opened: Opens, port: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    del opened  # it lets 127.0.0.1 go by no proxy
    folder = tmp_path_factory.mktemp("readme")
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) == 3
    brokers = str({"bootstrap.servers": pipeline.settings.broker_address()})
    there = f"{brokers}, prefix={pipeline.settings.kafka.prefix!r}"
    for block in blocks:
        script = block.replace("127.0.0.1:8760", f"127.0.0.1:{port}")
        script = script.replace('{"bootstrap.servers": "127.0.0.1:9092"}', there)
        done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.stderr}\n{pipeline.tails()}"
    assert {(folder / name).read_bytes()[:4] for name in ("heart.png", "cat.png")} == {PNG}
