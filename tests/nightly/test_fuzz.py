"""Random input until a time is over: bytes on topics, HTTP requests to the gateway, and files of images.

What `make test` tries by a few examples, the same in each run, is tried here by new ones: each ends as a message, an
answer or an image, or as an error of ours that says what is wrong.
"""

import asyncio
import io
import json
import os
import re
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from PIL import Image

from agents.gateway import openapi
from schemas.messages import Status
from streams.settings import Gateway
from streams.store.input_images import MAX_AREA, MAX_SIDE, InvalidInput, Opened, open_input
from tests.agents.gateway.deployment import Deployment
from tests.malformed import JSON, TEXTS, reported
from tests.paths import ROOT

MINUTES: Final = float(os.environ.get("TEST_FUZZ_MINUTES", "10"))  # of all three parts together
PART_S: Final = 20 * MINUTES
A_CALL_S: Final = 10.0  # that one image or one answer may take at most, on a busy machine
ROUND: Final = 100  # examples between two looks at the clock
SUITES: Final = (
    "tests/streams/test_malformed.py",
    "tests/agents/test_malformed.py",
    "tests/streams/codec/test_avro.py",
)


def for_a_while(strategy: st.SearchStrategy[Any], call: Callable[[Any], None]) -> int:
    """Call it with drawn values, each time others, until the part's time is over; return with how many."""
    end_s, rounds = time.monotonic() + PART_S, 0
    while time.monotonic() < end_s:
        known = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
        rules = settings(max_examples=ROUND, database=None, deadline=None, suppress_health_check=known, print_blob=True)
        seed(time.time_ns())(rules(given(strategy)(lambda value: call(value))))()
        rounds += 1
    return rounds * ROUND


def test_whatever_bytes_lie_on_a_topic_are_a_message_or_an_error_of_ours() -> None:
    end_s, runs, examples = time.monotonic() + PART_S, 0, 20  # the first run is whole, however long it takes
    while (left_s := end_s - time.monotonic()) > 0:
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *SUITES]
        try:
            done = subprocess.run(
                command, cwd=ROOT, env={**os.environ, "FUZZ_EXAMPLES": str(examples)}, capture_output=True, text=True,
                timeout=left_s if runs else None, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            break
        assert done.returncode == 0, done.stdout[-8000:]
        runs, examples = runs + 1, examples * 3
    print(f"codec and roles: {runs} whole runs, the last with {examples // 3} examples a test")
    assert runs


# ------------------------------------------------------------------ HTTP


ROUTES: Final = sorted(
    (method.upper(), path)
    for path, methods in openapi.document("1")["paths"].items()
    for method in methods
    if method in ("get", "post", "delete", "put")
)
POSTS: Final = [route for route in ROUTES if route[0] == "POST"]
ODD: Final = [(method, "/v1/predictions") for method in ("PATCH", "HEAD", "OPTIONS", "DELETE")]
FIELDS: Final = sorted(set(re.findall(r'"(\w{1,30})": \{', json.dumps(openapi.document("1")["components"]["schemas"]))))
BODIES: Final = st.dictionaries(st.sampled_from(FIELDS) | TEXTS, JSON, max_size=4).map(
    lambda fields: {"prompt": "a red heart", **fields}
)
HEADER_TEXT: Final = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40)
HEADERS: Final = st.dictionaries(
    st.sampled_from(
        ["accept", "authorization", "cancel-after", "content-encoding", "content-type", "expect", "host",
         "idempotency-key", "last-event-id", "origin", "prefer", "range", "transfer-encoding", "x-forwarded-host",
         "x-stainless-retry-count"]
    ),
    HEADER_TEXT | st.sampled_from(["wait=60", "wait", "9" * 40, "-1", "gzip", "multipart/form-data; boundary=x", "0s"]),
    max_size=3,
)  # fmt: skip
PART: Final = b'--x\r\nContent-Disposition: form-data; name="%b"; filename="%b"\r\n\r\n%b\r\n'


@st.composite
def forms(draw: st.DrawFn) -> bytes:
    """A form with a prompt and an image, or hardly."""
    names = st.sampled_from([b"image", b"image[]", b"mask", b"prompt", b"n", b'a"b', b""])
    parts = draw(st.lists(st.tuples(names, st.binary(max_size=4), files()), max_size=3))
    whole = b'--x\r\nContent-Disposition: form-data; name="prompt"\r\n\r\na boat\r\n'
    return draw(flipped(whole + b"".join(PART % part for part in parts) + b"--x--\r\n"))


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, str, dict[str, str], bytes]:
    """A method, a path, headers and a body."""
    method, path = draw(st.sampled_from([*ROUTES, *POSTS * 4, *ODD]))
    words = st.sampled_from(["pochade", "auto", "heavy", "x", "%2e%2e", "%00", "é", "a" * 300, ".", "x.y", "AAAA.BBBB"])
    path = re.sub(r"\{\w+\}", lambda _found: draw(words), path)
    is_json = draw(st.booleans())
    kind = "application/json" if is_json else "multipart/form-data; boundary=x"
    wrapped = BODIES.map(lambda body: {"input": body}) if path.endswith("predictions") else BODIES
    texts = (wrapped | BODIES).map(lambda body: json.dumps(body, ensure_ascii=True).encode())
    body = draw(texts | texts.flatmap(flipped) | st.binary(max_size=40)) if is_json else draw(forms())
    return method, path, {"content-type": kind, **draw(HEADERS)}, body


def test_whatever_is_asked_over_http_is_answered_and_is_no_fault_of_ours() -> None:
    statuses: dict[int, int] = {}

    def ask(request: tuple[str, str, dict[str, str], bytes]) -> None:
        method, path, headers, body = request
        deployment = Deployment(Gateway(wait_s=1.0))
        deployment.producer.fields = {"status": Status.FAILED, "code": "internal", "reason": "of the test"}

        async def answered() -> Any:
            async with deployment.http() as http:
                return await asyncio.wait_for(http.request(method, path, headers=headers, content=body), A_CALL_S)

        answer = asyncio.run(answered())
        statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
        assert answer.status_code < 500 or _is_told(answer), f"{answer.status_code}: {answer.text[:500]}"
        assert "Traceback" not in answer.text

    count = for_a_while(requests(), ask)
    print(f"HTTP: {count} requests, {dict(sorted(statuses.items()))}")
    assert {200, 400, 404} <= statuses.keys(), "requests that are served, and such that are refused"


def _is_told(answer: Any) -> bool:
    """Whether a 5xx is what the test's own results say, or that no worker serves the request in time."""
    return any(reason in answer.text for reason in ("of the test", "no worker", "not ended"))


# ------------------------------------------------------------------ images


def encoded(kind: str, size: tuple[int, int], mode: str, **how: Any) -> bytes:
    out = io.BytesIO()
    Image.new(mode, size, 90 if mode in "L1P" else (90,) * len(mode)).save(out, kind, **how)
    return out.getvalue()


EXIF: Final = Image.Exif()
EXIF[0x0112] = 6
SEEDS: Final = (
    encoded("PNG", (9, 7), "RGB"), encoded("PNG", (64, 3), "RGBA", exif=EXIF.tobytes()), encoded("PNG", (5, 5), "1"),
    encoded("PNG", (5, 5), "P", transparency=0), encoded("JPEG", (17, 9), "RGB", exif=EXIF.tobytes()),
    encoded("JPEG", (8, 8), "CMYK"), encoded("JPEG", (8, 8), "L", progressive=True), encoded("WEBP", (9, 9), "RGBA"),
    encoded("WEBP", (33, 2), "RGB", lossless=True, exif=EXIF.tobytes()),
)  # fmt: skip
NUMBERS: Final = st.sampled_from([0, 1, 7, 8192, 8193, 60_000, 2**31 - 1, 2**31, 2**32 - 1])


@st.composite
def flipped(draw: st.DrawFn, whole: bytes) -> bytes:
    """Bytes of which some are others, are missing, come twice, or say another number."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(0, 4))):
        at, length = draw(st.integers(0, max(len(data) - 1, 0))), draw(st.integers(1, 16))
        change = draw(st.sampled_from(["bits", "cut", "twice", "number", "bytes"]))
        if change == "bits" and data:
            data[at] ^= draw(st.integers(1, 255))
        elif change == "cut":
            del data[at : at + length]
        elif change == "twice":
            data[at:at] = data[at : at + length]
        elif change == "number":
            data[at : at + 4] = struct.pack(draw(st.sampled_from([">I", "<I"])), draw(NUMBERS))
        else:
            data[at : at + length] = draw(st.binary(max_size=16))
    return bytes(data)


def chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The chunks of a PNG file: name, content."""
    at = 8
    while at + 8 <= len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        yield data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        at += 12 + length


@st.composite
def repaired(draw: st.DrawFn, whole: bytes) -> bytes:
    """A PNG file whose chunks are changed, and whose checksums are right, so that a reader goes on."""
    names = st.sampled_from(
        [b"IHDR", b"IDAT", b"PLTE", b"tRNS", b"iCCP", b"eXIf", b"zTXt", b"iTXt", b"acTL", b"fdAT", b"IEND"]
    )
    changed = []
    for name, content in chunks(whole):
        if draw(st.integers(0, 3)) == 0:
            content = draw(flipped(content))
        name = draw(names) if draw(st.integers(0, 9)) == 0 else name
        changed.append((name, content))
    body = (struct.pack(">I", len(c)) + n + c + struct.pack(">I", zlib.crc32(n + c)) for n, c in changed)
    return whole[:8] + b"".join(body)


def files() -> st.SearchStrategy[bytes]:
    """Files of images that are spoilt, some of them hardly."""
    pngs = [data for data in SEEDS if data.startswith(b"\x89PNG")]
    return (
        st.sampled_from(SEEDS).flatmap(flipped) | st.sampled_from(pngs).flatmap(repaired) | st.sampled_from(SEEDS)
        | st.binary(max_size=60)
    )  # fmt: skip


def test_whatever_is_sent_as_an_image_is_opened_within_its_limits_or_refused() -> None:
    opened, refused = 0, 0

    def open_it(asked: tuple[bytes, str, tuple[int, int] | None]) -> None:
        nonlocal opened, refused
        data, mode, size = asked
        begun_s = time.monotonic()
        found = reported(lambda: open_input(data, "image", mode=mode, size=size))
        assert isinstance(found, (Opened, InvalidInput))
        if isinstance(found, Opened):
            assert max(found.image.size) <= MAX_SIDE
            assert found.image.width * found.image.height <= MAX_AREA
            assert (mode or found.image.mode, size or found.image.size) == (found.image.mode, found.image.size)
            opened += 1
        else:
            assert str(found).startswith("image ")
            refused += 1
        assert time.monotonic() - begun_s < A_CALL_S

    asked = st.tuples(files(), st.sampled_from(["", "RGB", "L"]), st.none() | st.just((16, 8)))
    count = for_a_while(asked, open_it)
    print(f"images: {count} files, {opened} opened and {refused} refused")
    assert min(opened, refused) > 0


pytestmark = pytest.mark.timeout(7200)
