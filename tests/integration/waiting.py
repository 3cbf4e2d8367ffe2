"""Waiting for what must happen, and what a process answers over HTTP."""

import urllib.error
import urllib.request
from collections.abc import Callable
from typing import TypeVar

import pytest
from tenacity import RetryError, Retrying, retry_if_not_result, stop_after_delay, wait_fixed

from tests.patience import PATIENCE_S

T = TypeVar("T")

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def poll_until(condition: Callable[[], T], what: str | Callable[[], str], limit_s: float = PATIENCE_S) -> T:
    """The first true value of `condition()`, or a failed test that says what did not come."""
    again = Retrying(retry=retry_if_not_result(bool), stop=stop_after_delay(limit_s), wait=wait_fixed(0.05))
    try:
        return again(condition)
    except RetryError:
        pytest.fail(f"not within {limit_s} s: {what if isinstance(what, str) else what()}")


def ask(url: str) -> tuple[int, str]:
    """Status and body; 0 while nobody listens."""
    try:
        with DIRECT.open(url, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""
