"""Log lines: one JSON object each, about the record being served, and never what somebody asked for."""

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from schemas.errors import InvalidRecord
from schemas.record import Incoming
from streams.codec.requests import decode_request
from streams.observing import log_context, logs
from streams.settings import InvalidSettings, Logs, load

PROMPT = "a portrait of my neighbour"
log = logging.getLogger("pochade.tests")


class Written:
    """What went to standard error so far."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys, self._text = capsys, ""

    def getvalue(self) -> str:
        self._text += self._capsys.readouterr().err
        return self._text


@pytest.fixture
def written(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Written]:
    """Logging goes there as `set_up` has it, and is as before afterwards."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    root.handlers = []  # else pytest's own handlers would be closed
    monkeypatch.setattr(logs, "_shows_prompts", False)
    yield Written(capsys)
    root.handlers = before
    root.setLevel(level)
    logging.captureWarnings(False)


def set_up(**settings: Any) -> None:
    logs.set_up(Logs(**settings), {"router", "classifier"})


def a_record(request_id: str = "r-17", offset: int = 12, value: bytes = b"") -> Incoming:
    return Incoming(topic="t", partition=3, offset=offset, timestamp_ms=0, key=request_id.encode(), value=value)


def lines(written: Written) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written.getvalue().splitlines()]


def test_a_json_line_says_when_how_bad_who_what_and_which_roles(written: Written) -> None:
    set_up(format="json")
    log.warning("two\nlines of %s", "text")
    [line] = lines(written)
    assert line.pop("ts").endswith("Z")
    assert line == {
        "level": "warning", "logger": "pochade.tests", "message": "two\nlines of text",
        "roles": ["classifier", "router"],
    }  # fmt: skip


def test_a_line_about_a_record_says_which_and_under_which_plan(written: Written) -> None:
    set_up(format="json")
    with log_context.serving(a_record()):
        log_context.obeying(5)
        log.info("inside")
    log.info("outside")
    inside, outside = lines(written)
    wanted = {"request_id": "r-17", "topic": "t", "partition": 3, "offset": 12, "plan_version": 5}
    assert inside.items() >= wanted.items()
    assert not wanted.keys() & outside.keys()


def test_a_batch_names_every_request(written: Written) -> None:
    set_up(format="json")
    with log_context.serving(a_record("r-1", 1), a_record("r-2", 2), plan_version=4):
        log.info("painting")
    [line] = lines(written)
    assert (line["request_id"], line["offset"], line["plan_version"]) == (["r-1", "r-2"], 1, 4)


def test_the_plan_of_one_record_is_not_that_of_the_next() -> None:
    with log_context.serving(a_record("r-1")):
        log_context.obeying(5)
    with log_context.serving(a_record("r-2")):
        assert "plan_version" not in log_context.context()


def test_threads_and_tasks_do_not_mix_up_their_records() -> None:
    async def served_by_a_task(name: str) -> object:
        with log_context.serving(a_record(name)):
            await asyncio.sleep(0)
            return (await asyncio.to_thread(log_context.context))["request_id"]

    async def both() -> list[object]:
        return await asyncio.gather(served_by_a_task("r-1"), served_by_a_task("r-2"))

    assert asyncio.run(both()) == ["r-1", "r-2"]
    seen: list[dict[str, Any]] = []
    with log_context.serving(a_record()):
        thread = threading.Thread(target=lambda: seen.append(log_context.context()))
        thread.start()
        thread.join()
    assert seen == [{}]


def test_an_exception_is_a_field(written: Written) -> None:
    set_up(format="json")
    try:
        raise ValueError("no such thing")
    except ValueError:
        log.exception("failed")
    [line] = lines(written)
    assert line["message"] == "failed"
    assert "Traceback" in line["exception"]
    assert "ValueError: no such thing" in line["exception"]


@pytest.mark.parametrize("format", ["text", "json"])
@pytest.mark.parametrize("value", [f'{{"prompt": "{PROMPT}", "oops"'.encode(), f'{{"prompt": ["{PROMPT}"]}}'.encode()])
def test_a_prompt_is_never_logged_even_by_the_error_that_quotes_it(written: Written, format: str, value: bytes) -> None:
    set_up(format=format)
    record = a_record(value=value)
    with log_context.serving(record):
        try:
            decode_request(record)
        except Exception as error:
            log.exception("cannot serve: %s", error)
            log.error("again: %s", error)
    assert "portrait" not in written.getvalue()
    assert "logs.prompts=clear" in written.getvalue()


def test_an_error_that_quotes_a_prompt_is_found_behind_another(written: Written) -> None:
    set_up()
    try:
        try:
            raise InvalidRecord(f"starts with {PROMPT}")
        except InvalidRecord as error:
            raise RuntimeError("no result") from error
    except RuntimeError:
        log.exception("failed")
    assert "portrait" not in written.getvalue()
    assert "RuntimeError: no result" in written.getvalue()


def test_an_error_that_is_its_own_cause_is_logged_and_what_it_quotes_is_withheld(written: Written) -> None:
    set_up()
    quoting = InvalidRecord(f"starts with {PROMPT}")
    around = RuntimeError(f"no result: {quoting}")
    around.__cause__, quoting.__cause__, quoting.__context__ = (
        quoting,
        quoting,
        around,
    )  # pymilvus: raise e from e
    log.warning("again in 1 s: %s", around)
    assert "portrait" not in written.getvalue()
    assert "again in 1 s: no result" in written.getvalue()


def test_prompts_are_clear_only_where_the_settings_say_so(written: Written) -> None:
    set_up(prompts="clear")
    try:
        raise InvalidRecord(f"starts with {PROMPT}")
    except InvalidRecord:
        log.exception("generating")
    assert written.getvalue().count("portrait") == 1


def test_text_is_one_line_with_the_record_at_its_end(written: Written) -> None:
    set_up(format="text")
    with log_context.serving(a_record()):
        log.info("routed")
    line = written.getvalue()
    assert "INFO pochade.tests: routed [request_id=r-17 topic=t partition=3 offset=12]\n" in line


def test_less_than_the_level_is_not_written(written: Written) -> None:
    set_up(level="warning")
    log.info("small talk")
    assert written.getvalue() == ""


def test_libraries_stay_quiet_when_we_debug(written: Written) -> None:
    set_up(level="debug")
    logging.getLogger("botocore.endpoint").debug("every byte")
    log.debug("a detail")
    assert "every byte" not in written.getvalue()
    assert "a detail" in written.getvalue()


def test_a_library_that_insists_is_heard_once_a_second_for_each_thing_it_says(written: Written) -> None:
    set_up()
    said = logging.getLogger("aiokafka.conn")
    for number in range(50):
        said.error("Unable connect to node with id %s", number)
        said.error("no coordinator")
        logging.getLogger("streams.any").error("ours")
    text = written.getvalue()
    assert [text.count(line) for line in ("Unable connect", "no coordinator", "ours")] == [1, 1, 50]


def test_a_format_that_is_none_is_an_error_that_lists_them() -> None:
    with pytest.raises(InvalidSettings, match=r"logs\.format: Input should be 'text' or 'json'"):
        load({"logs": {"format": "xml"}})
