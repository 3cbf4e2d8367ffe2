"""Access logs and other logs as traces."""

import pathlib

import pytest
from click.testing import CliRunner

from replay.commands.replay import inspect
from replay.traces import read
from replay.traces.reading import Asked
from replay.traces.trace import InvalidTrace
from schemas.errors import PochadeError
from streams.settings import load

COMMON = (
    '10.0.0.1 - ana [28/Nov/2026:10:00:00 +0100] "POST /v1/images/generations HTTP/1.1" 200 812\n'
    '10.0.0.2 - - [28/Nov/2026:10:00:02 +0100] "GET /a\\"b HTTP/1.1" 200 9 "-" "curl/8.1"\n'
)
OTHER = "at 28.11.2026 10:00:00: a red heart\nat 28.11.2026 10:00:01: a blue boat\n"
PATTERN = r"at (?P<time>\S+ \S+): (?P<prompt>.*)"
GERMAN = "%d.%m.%Y %H:%M:%S"


def written(folder: pathlib.Path, text: str) -> pathlib.Path:
    path = folder / "it.log"
    path.write_text(text)
    return path


def test_an_access_log_is_recognised_and_each_line_is_a_request(tmp_path: pathlib.Path) -> None:
    assert read(written(tmp_path, COMMON)).arrival_ms.tolist() == [0, 2000]


def test_a_line_of_another_form_is_an_error_with_its_place_or_counted(tmp_path: pathlib.Path) -> None:
    path = written(tmp_path, COMMON + "restarted\n")
    with pytest.raises(InvalidTrace, match=r"it.log:3: the pattern of lines is not found: 'restarted"):
        read(path)
    assert read(path, Asked(is_lenient=True)).skipped == {"another line": 1}


def test_a_pattern_says_where_the_time_and_the_prompt_of_a_line_are(tmp_path: pathlib.Path) -> None:
    trace = read(written(tmp_path, OTHER), Asked(line_pattern=PATTERN, time_format=GERMAN))
    assert trace.arrival_ms.tolist() == [0, 1000]
    assert trace.texts == ("a red heart", "a blue boat")


def test_times_of_a_table_are_read_in_the_format_that_is_stated(tmp_path: pathlib.Path) -> None:
    table = "begun;text\n28.11.2026 10:00:00;x\n28.11.2026 10:01:00;y\n"
    asked = Asked(time_column="begun", prompt_column="text", time_format=GERMAN)
    assert read(written(tmp_path, table), asked).arrival_ms.tolist() == [0, 60_000]
    with pytest.raises(InvalidTrace, match=r"it.log:2: .* correct --time-format"):
        read(written(tmp_path, table), Asked(time_column="begun", time_format="%Y"))


def test_a_preset_of_the_settings_says_how_a_log_is_read_and_options_go_before_it(tmp_path: pathlib.Path) -> None:
    preset = {"shop": {"line_pattern": PATTERN, "time_format": GERMAN}}

    def asked(*words: str) -> str:
        done = CliRunner().invoke(inspect, [*words], obj=lambda: load({"traces": preset}))
        return done.output + str(done.exception or "")

    log = str(written(tmp_path, OTHER))
    assert "2 distinct, 3 words" in asked(log, "--preset", "shop")
    assert "correct --time-format" in asked(log, "--preset", "shop", "--time-format", "%Y")
    assert "did you mean 'shop'" in asked(log, "--preset", "shp")
    assert "--preset" in asked("--from-topic", "--preset", "shop")


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("(", "is no regular expression"),
        ("x", r"needs a group \(\?P<time>"),
        ("(?P<time>.)(?P<tim>.)", "unknown group"),
    ],
)
def test_a_wrong_pattern_is_refused(pattern: str, says: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(PochadeError, match=says):
        read(written(tmp_path, OTHER), Asked(line_pattern=pattern))


@pytest.mark.parametrize(
    ("text", "asked", "says"),
    [
        ('{"at_s": 1}\n', Asked(time_format=GERMAN), "omit --time-format"),
        ("arrival_ms\n1\n", Asked(time_format=GERMAN), "no column of times for --time-format"),
        (COMMON, Asked(time_column="x"), "say by --line-pattern"),
    ],
)
def test_options_that_would_be_dropped_are_refused(text: str, asked: Asked, says: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(InvalidTrace, match=says):
        read(written(tmp_path, text), asked)
