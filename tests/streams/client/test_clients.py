"""The two shells: on a server that the test scripts, and, for asyncio, on the gateway's own app in memory."""

import asyncio
import io
import math
import pathlib
import socket
import subprocess
import sys
import threading
from collections.abc import Callable

import httpx
import pytest
from PIL import Image as Pillow
from pochade import (
    AsyncClient,
    Cancelled,
    Client,
    Completed,
    Gateway,
    NotFound,
    PochadeError,
    Refused,
    StillOpen,
    Unavailable,
    Unsupported,
)

from agents.gateway.callers.bearer import TENANT
from schemas.messages import EventKind, Status
from schemas.topics import OUTCOMES
from tests.agents.gateway.deployment import Deployment, event, tell
from tests.patience import PATIENCE_S
from tests.streams.client.scripted import shown, stream


def png(colour: str = "red") -> bytes:
    out = io.BytesIO()
    Pillow.new("RGB", (64, 64), colour).save(out, "PNG")
    return out.getvalue()


class Server:
    """Answers by path; what was asked is kept. Its first POST may be received and its answer lost."""

    def __init__(self, *, is_first_answer_lost: bool = False, is_open: bool = False) -> None:
        self.asked = list[httpx.Request]()
        self._loses, self._is_open = is_first_answer_lost, is_open

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        path = request.url.path
        if path == "/v1/files/one":
            return httpx.Response(200, content=b"PNG")
        if path.startswith("/v1/streams/"):
            events = (("0.1", "logs", "started level=light"), ("2.0", "done", "{}"))
            return httpx.Response(200, content=stream(*events).body)
        if request.method == "POST" and path == "/v1/predictions" and self._loses:
            self._loses = False
            raise httpx.ReadTimeout("no answer", request=request)
        return httpx.Response(200, json=shown("r-1", "starting" if self._is_open else "succeeded"))

    def client(self) -> Client:
        return Client(
            Gateway("http://gateway", dice=lambda: 1.0), http=httpx.Client(transport=httpx.MockTransport(self))
        )

    def asynchronous(self) -> AsyncClient:
        http = httpx.AsyncClient(transport=httpx.MockTransport(self))
        return AsyncClient(Gateway("http://gateway", dice=lambda: 1.0), http=http)

    def keys(self) -> set[str]:
        return {each.headers["idempotency-key"] for each in self.asked if each.url.path == "/v1/predictions"}


def test_both_shells_generate_and_read_an_image() -> None:
    with Server().client() as client:
        completed = client.generate("a red heart")
        assert client.read(completed.images[0]) == b"PNG"

    async def run() -> bytes:
        async with Server().asynchronous() as client:
            return await client.read((await client.generate("a red heart")).images[0])

    assert asyncio.run(run()) == b"PNG"


def test_a_timeout_after_the_post_arrived_repeats_it_under_its_key() -> None:
    server = Server(is_first_answer_lost=True)
    assert server.client().submit("a red heart").request_id == "r-1"
    assert (len(server.asked), len(server.keys())) == (2, 1)
    other = Server(is_first_answer_lost=True)
    asyncio.run(other.asynchronous().submit("a red heart"))
    assert (len(other.asked), len(other.keys())) == (2, 1)


def test_both_shells_yield_events_of_a_request_of_another_process() -> None:
    kinds = [each.kind for each in Server().client().handle("r-1").events()]
    assert kinds == ["started", "ended"]

    async def run() -> list[str]:
        return [each.kind async for each in Server().asynchronous().handle("r-1").events()]

    assert asyncio.run(run()) == kinds


def test_who_leaves_a_stream_of_events_early_leaves_no_connection_open() -> None:
    closed = threading.Event()

    class Stream(httpx.SyncByteStream):
        def __iter__(self):  # type: ignore[no-untyped-def]
            while True:
                yield stream(("0.1", "logs", "started level=light")).body

        def close(self) -> None:
            closed.set()

    def serve(request: httpx.Request) -> httpx.Response:
        if request.url.path.startswith("/v1/streams/"):
            return httpx.Response(200, stream=Stream())
        return httpx.Response(200, json=shown())

    client = Client("http://gateway", http=httpx.Client(transport=httpx.MockTransport(serve)))
    events = client.handle("r-1").events()
    assert [next(events).kind, next(events).kind] == ["queued", "started"]
    events.close()  # type: ignore[attr-defined]
    assert closed.is_set()


def test_a_deployment_that_is_not_there_is_unavailable() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("connection refused", request=request)

    gateway = Gateway("http://gateway", retry_s=0.0)
    with pytest.raises(Unavailable, match="connection refused"):
        Client(gateway, http=httpx.Client(transport=httpx.MockTransport(refuse))).submit("a")
    with pytest.raises(PochadeError, match="missing an 'http://'"):
        Client("gateway:8760").submit("a")


@pytest.mark.parametrize("options", [{}, {"timeout_s": math.inf}, {"timeout_s": 1e10}])
def test_what_http_cannot_carry_is_an_error_of_the_clients(options: dict[str, float]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with Client(Gateway(url, **options)) as client, pytest.raises(PochadeError, match="HTTP cannot do this"):  # type: ignore[arg-type]
            client.submit("a", idempotency_key="two\nlines")

        async def run() -> None:
            async with AsyncClient(Gateway(url, **options)) as client:  # type: ignore[arg-type]
                with pytest.raises(PochadeError, match="HTTP cannot do this"):
                    await client.submit("a", idempotency_key="two\nlines")

        asyncio.run(run())


def test_a_key_may_have_any_letters_and_both_shells_send_the_same() -> None:
    sync, asynchronous = Server(), Server()
    sync.client().submit("a", idempotency_key="Größe-17")
    asyncio.run(asynchronous.asynchronous().submit("a", idempotency_key="Größe-17"))
    sent = [server.asked[0].headers.raw for server in (sync, asynchronous)]
    assert [dict(raw)[b"idempotency-key"] for raw in sent] == ["Größe-17".encode()] * 2


def test_an_interrupt_while_an_image_is_waited_for_cancels_the_request() -> None:
    asked = list[str]()

    def serve(request: httpx.Request) -> httpx.Response:
        asked.append(f"{request.method} {request.url.path}")
        if request.method == "GET":
            raise KeyboardInterrupt
        return httpx.Response(200, json=shown())

    client = Client("http://gateway", http=httpx.Client(transport=httpx.MockTransport(serve)))
    with pytest.raises(KeyboardInterrupt):
        client.generate("a red heart")
    assert asked[-1] == "POST /v1/predictions/r-1/cancel"


def test_lists_of_all_ends_do_not_go_over_http() -> None:
    with pytest.raises(Unsupported, match="Kafka"):
        list(Client("http://gateway").ends())


def test_importing_the_client_loads_no_httpx_and_no_asyncio() -> None:
    heavy = {"httpx", "asyncio", "confluent_kafka", "fastavro", "logging"}
    script = f"import sys, pochade; print(*{heavy} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


# from here on the gateway's own code answers


def on_gateway(deployment: Deployment, run: Callable[[AsyncClient], object]) -> object:
    async def all_of_it() -> object:
        async with deployment.http() as http:
            gateway = Gateway("http://127.0.0.1:8760", retry_s=0.5)
            return await run(AsyncClient(gateway, http=http))  # type: ignore[misc]

    return asyncio.run(all_of_it())


def test_the_gateway_completes_what_the_client_asks_for() -> None:
    deployment = Deployment()
    deployment.ends(png(), level="light", overridden=("steps: 4",))

    async def run(client: AsyncClient) -> None:
        completed = await client.generate("a red heart", seed=7, width=64, height=64, deadline_s=2.5)
        assert await client.read(completed.images[0]) == png()
        assert (completed.level, completed.overridden) == ("light", ("steps: 4",))

    on_gateway(deployment, run)
    request = deployment.asked()
    assert (request.seed, request.options.width, request.deadline_ms) == (7, 64, deployment.now_ms + 2500)


@pytest.mark.parametrize("status", [Status.REJECTED, Status.EXPIRED, Status.CANCELLED, Status.FAILED])
def test_the_gateway_states_each_end_so_that_the_client_can_type_it(status: Status) -> None:
    deployment = Deployment()
    deployment.ends(status=status, code="why", reason="because", param="seed")

    async def run(client: AsyncClient) -> object:
        return await (await client.submit("a red heart")).result(5)

    end = on_gateway(deployment, run)
    assert type(end).__name__.upper() == status
    assert (end.reason, end.code) == ("because", "why")  # type: ignore[attr-defined]


def test_the_gateway_joins_a_repetition_by_another_process_whatever_its_deadline() -> None:
    deployment = Deployment()

    async def run(client: AsyncClient) -> None:
        first = await client.submit("a", idempotency_key="order-17", deadline_s=60)
        again = await client.submit("a", idempotency_key="order-17", deadline_s=5)
        other = await client.submit("a", idempotency_key="order-18", deadline_s=5)
        assert first.request_id == again.request_id != other.request_id

    on_gateway(deployment, run)
    assert len(deployment.written()) == 2


def test_the_gateway_cancels_once_and_not_after_the_end() -> None:
    deployment = Deployment()

    async def run(client: AsyncClient) -> None:
        handle = await client.submit("a red heart")
        await handle.cancel()
        await handle.cancel()
        assert isinstance(await handle.result(5), Cancelled)
        deployment.ends(png())
        completed = await client.submit("a blue boat")
        await completed.cancel()
        assert isinstance(await completed.result(5), Completed)

    on_gateway(deployment, run)
    assert len(deployment.written(OUTCOMES)) == 1


def test_the_end_of_the_task_that_generates_cancels_the_request() -> None:
    deployment = Deployment()

    async def run(client: AsyncClient) -> None:
        task = asyncio.create_task(client.generate("a red heart"))
        async with asyncio.timeout(PATIENCE_S):
            while not deployment.written():
                await asyncio.sleep(0)
        for _ in range(100):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    on_gateway(deployment, run)
    assert len(deployment.written(OUTCOMES)) == 1


def test_the_gateway_holds_an_answer_back_until_the_end() -> None:
    deployment = Deployment()

    async def run(client: AsyncClient) -> None:
        handle = await client.submit("a red heart")
        waiting = asyncio.create_task(handle.result(30))
        await asyncio.sleep(0)
        await handle.cancel()
        assert isinstance(await waiting, Cancelled)

    on_gateway(deployment, run)


def test_a_request_that_has_not_ended_in_time_goes_on() -> None:
    deployment = Deployment()

    async def run(client: AsyncClient) -> None:
        handle = await client.submit("a red heart")
        with pytest.raises(StillOpen) as raised:
            await handle.result(0)
        assert raised.value.request_id == handle.request_id
        with pytest.raises(StillOpen):
            await client.generate("a blue boat", timeout_s=0)

    on_gateway(deployment, run)
    assert not deployment.written(OUTCOMES)


def test_the_gateway_does_not_know_an_id_that_there_is_not() -> None:
    async def run(client: AsyncClient) -> None:
        handle = client.handle("none-such")
        for call in (handle.result(5), handle.cancel(), handle.explain()):
            with pytest.raises(NotFound, match="none-such"):
                await call

    on_gateway(Deployment(), run)


def test_the_gateway_refuses_an_option_by_its_name() -> None:
    async def run(client: AsyncClient) -> None:
        with pytest.raises(Refused, match="negative_prompt") as raised:
            await client.submit("a", negativ_prompt="b")  # type: ignore[call-arg]
        assert (raised.value.status, raised.value.param) == (400, "negativ_prompt")

    on_gateway(Deployment(), run)


def test_the_gateway_stores_uploads_before_the_request_that_names_them(tmp_path: pathlib.Path) -> None:
    deployment = Deployment()
    file = tmp_path / "heart.png"
    file.write_bytes(png())

    async def run(client: AsyncClient) -> None:
        first = await client.submit("a", image=file, strength=0.5, seed=3, model="styles", idempotency_key="k")
        again = await client.submit("a", image=png(), strength=0.5, seed=3, model="styles", idempotency_key="k")
        assert first.request_id == again.request_id
        with pytest.raises(Refused, match="image"):
            await client.submit("a", image=b"<svg/>")

    on_gateway(deployment, run)
    options = deployment.asked().options
    assert deployment.store.get(options.image) == png()
    assert (options.strength, options.model, deployment.asked().seed) == (0.5, "styles", 3)


def test_the_gateway_sends_events_that_the_client_can_read() -> None:
    deployment = Deployment()

    async def run(client: AsyncClient) -> list[str]:
        handle = await client.submit("a red heart")
        tell(deployment.jobs, event(handle.request_id, EventKind.STARTED, level="light", stage=0, steps=4))
        await handle.cancel()
        seen = [each async for each in handle.events()]
        assert seen[0].details["level"] == "light"
        assert isinstance(seen[-1].end, Cancelled)
        return [each.kind for each in seen]

    assert on_gateway(deployment, run) == ["started", "ended"]


def test_the_gateway_explains_a_request_without_its_workers_and_places() -> None:
    deployment = Deployment()

    async def run(client: AsyncClient) -> None:
        handle = await client.submit("a red heart", seed=7)
        waiting = await handle.explain()
        assert (waiting.why, waiting.path) == ("it waits for a worker", [])
        deployment.ends(png())
        ended = await client.submit("a blue boat", seed=7)
        explained = await ended.explain()
        assert explained.why == "kept: confidence 0.82 ≥ 0.55"
        assert (explained.path[0]["level"], explained.path[0]["confidence"]) == ("light", 0.82)
        assert "seed 7" in (explained.asked or "")
        assert not {"worker_id", "image", "more", "latent"} & explained.path[0].keys()

    on_gateway(deployment, run)


def test_of_keys_the_tenants_own_requests_alone_are_there() -> None:
    from streams.settings import Gateway as Limits

    deployment = Deployment(Limits(authentication="bearer"))
    ours, theirs = deployment.key("studio"), deployment.key("others")

    async def run(_client: AsyncClient) -> None:
        async with deployment.http() as http:
            made = await AsyncClient("http://127.0.0.1:8760", api_key=ours, http=http).submit("a red heart")
            other = AsyncClient(Gateway("http://127.0.0.1:8760", api_key=theirs), http=http)
            with pytest.raises(NotFound):
                await other.handle(made.request_id).explain()
            for wrong in ("", "Schlüssel"):
                with pytest.raises(Refused) as raised:
                    await AsyncClient("http://127.0.0.1:8760", api_key=wrong, http=http).submit("a")
                assert raised.value.status == 401

    on_gateway(deployment, run)
    assert deployment.asked().tenant == "studio" != TENANT
