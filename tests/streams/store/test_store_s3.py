"""The S3 store's own promises: who waits, which errors say what to do, and whose objects it leaves alone."""

import socket
import time
from urllib.parse import parse_qsl, urlsplit

import boto3
import httpx
import pytest

from schemas.errors import PochadeError
from streams.settings import InvalidSettings
from streams.store.port import StoreUnavailable
from streams.store.s3 import S3ImageStore, parsed
from tests.streams.store.s3_server import answering, s3_server, set_up_credentials

OUR_URI = "s3://the-bucket/ab/job-0123456789abcdef.png"


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    set_up_credentials(monkeypatch)


def opened(endpoint_url: str, url: str = "s3://the-bucket") -> S3ImageStore:
    return S3ImageStore.open(url, endpoint_url, "us-east-1")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_objects_of_others_in_the_bucket_are_never_listed() -> None:
    with s3_server("the-bucket") as endpoint:
        client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
        for key in ("holiday.png", "ab/holiday.png", "prod2/ab/job-0123456789abcdef.png"):
            client.put_object(Bucket="the-bucket", Key=key, Body=b"mine")
        for url in ("s3://the-bucket", "s3://the-bucket/prod"):
            assert list(opened(endpoint, url).list(time.time_ns())) == []


def test_a_listing_goes_over_more_than_one_page() -> None:
    with s3_server("the-bucket") as endpoint:
        store = opened(endpoint)
        put = {store.put(f"job-{n}", b"x") for n in range(7)}
        paginate = store._client.get_paginator  # seven objects in pages of two
        store._client.get_paginator = lambda name: _InPagesOfTwo(paginate(name))
        assert {stored.uri for stored in store.list(time.time_ns())} == put


class _InPagesOfTwo:
    def __init__(self, paginator: object) -> None:
        self._paginator = paginator

    def paginate(self, **arguments: object) -> object:
        return self._paginator.paginate(**arguments, PaginationConfig={"PageSize": 2})  # type: ignore[attr-defined]


def test_a_bucket_that_is_missing_says_so_at_start() -> None:
    with s3_server("the-bucket") as endpoint, pytest.raises(PochadeError, match="no bucket 'the-buckett': create it"):
        opened(endpoint, "s3://the-buckett/pictures")


def test_credentials_that_are_missing_are_said_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with s3_server("the-bucket") as endpoint, pytest.raises(PochadeError, match="set AWS_ACCESS_KEY_ID"):
        opened(endpoint)


def test_credentials_that_are_refused_are_said_at_start_with_the_rights_that_are_needed() -> None:
    with answering(403, "InvalidAccessKeyId") as endpoint, pytest.raises(PochadeError, match="s3:PutObject") as raised:
        opened(endpoint)
    assert not isinstance(raised.value, StoreUnavailable)


def test_a_server_that_is_down_at_start_is_unavailable() -> None:
    with pytest.raises(StoreUnavailable, match="s3_endpoint_url right and the server up"):
        opened(f"http://127.0.0.1:{free_port()}")


@pytest.mark.parametrize(
    ("status", "code"),
    [(503, "SlowDown"), (500, "InternalError"), (403, "ExpiredToken"), (404, "NoSuchBucket"), (409, "Conflict")],
)
def test_trouble_after_the_start_is_waited_out_whatever_it_is(status: int, code: str) -> None:
    with answering(status, code, head=200) as endpoint:
        store = opened(endpoint)
        for ask in (
            lambda: store.put("job", b"x"),
            lambda: store.get(OUR_URI),
            lambda: store.delete(OUR_URI),
            lambda: list(store.list(0)),
        ):
            with pytest.raises(StoreUnavailable, match=code):
                ask()


def test_a_server_that_goes_away_is_unavailable_until_it_is_back() -> None:
    with s3_server("the-bucket") as endpoint:
        store = opened(endpoint)
    with pytest.raises(StoreUnavailable, match="cannot write s3://the-bucket"):
        store.put("job", b"x")


@pytest.mark.parametrize("url", ["s3:/bucket", "https://bucket/x", "s3://", "s3://Bucket", "s3://bucket/a b", "bucket"])
def test_a_url_that_is_none_is_an_error_that_shows_the_form(url: str) -> None:
    with pytest.raises(InvalidSettings, match="s3://BUCKET/PREFIX"):
        parsed(url)


@pytest.mark.parametrize(
    ("url", "wanted"),
    [("s3://bucket", ("bucket", "")), ("s3://bucket/", ("bucket", "")), ("s3://bucket/a/b/", ("bucket", "a/b"))],
)
def test_a_url_names_bucket_and_prefix(url: str, wanted: tuple[str, str]) -> None:
    assert parsed(url) == wanted


def test_an_endpoint_that_is_none_is_an_error_that_names_the_setting() -> None:
    with pytest.raises(InvalidSettings, match=r"store\.s3_endpoint_url 'minio'"):
        opened("minio")


def test_a_signed_address_is_read_without_credentials_for_as_long_as_it_says() -> None:
    with s3_server("the-bucket") as endpoint:
        store = opened(endpoint, "s3://the-bucket/prod")
        uri = store.put("job", b"of an image")
        address = store.presigned(uri, 90)
        assert httpx.get(address, trust_env=False).content == b"of an image"
        assert dict(parse_qsl(urlsplit(address).query))["X-Amz-Expires"] == "90"
        with pytest.raises(PochadeError, match="is not an image of the store"):
            store.presigned("s3://the-bucket/other/x.png", 90)
