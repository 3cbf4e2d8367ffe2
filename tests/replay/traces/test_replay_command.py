"""`pochade replay` as a person calls it."""

import gzip
import json
import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

from replay.traces import read
from streams.cli import main
from tests.replay.traces.files import arrivals, jsonl


def called(*arguments: str | pathlib.Path) -> Result:
    return CliRunner().invoke(main, ["replay", *map(str, arguments)])


@pytest.fixture
def trace(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "trace"
    path.write_text(arrivals(*range(0, 60_000, 50)))
    return path


def test_inspect_shows_the_figures_and_writes_the_page(trace: pathlib.Path, tmp_path: pathlib.Path) -> None:
    reported = called("inspect", trace, "--report", tmp_path / "out")
    assert reported.exit_code == 0, reported.output
    assert "1,200" in reported.output
    assert (tmp_path / "out" / "trace.html").exists()
    found = json.loads(called("inspect", trace, "--scale", "2", "--loop", "2", "-o", "json").output)
    assert found["requests"] == 4800


def test_save_writes_what_the_options_made(trace: pathlib.Path, tmp_path: pathlib.Path) -> None:
    prompts, out = tmp_path / "prompts.txt", tmp_path / "out.jsonl.gz"
    prompts.write_text("a cat\na dog\n")
    reported = called("save", trace, "--limit", "3", "--speed", "2", "--prompts", prompts, "--out", out)
    assert reported.output == f"{out}: 3 requests over 0.05 s\n"
    assert [(row.arrival_ms, row.prompt) for row in read(out).rows()] == [(0, "a cat"), (25, "a dog"), (50, "a cat")]


def test_make_writes_the_same_bytes_for_the_same_options(tmp_path: pathlib.Path) -> None:
    options = ["--shape", "ramp", "--rate", "40/m", "--rate", "540/m", "--for", "10m"]
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        assert called("make", *options, "--seed", seed, "--out", tmp_path / name).exit_code == 0
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b != c
    assert len(read(tmp_path / "a")) == pytest.approx(2900, rel=0.1)


def test_make_shapes_counts_as_the_papers(tmp_path: pathlib.Path) -> None:
    counts, out = tmp_path / "hours.csv", tmp_path / "out.csv"
    counts.write_text("hour,invocations\n" + "".join(f"{n},{100 + n % 24}\n" for n in range(100)))
    assert called("make", "--shape", "counts", counts, "--to", "4:32", "--out", out).exit_code == 0
    trace = read(out)
    assert 99_000 < trace.arrival_ms[-1] < 101_000
    assert len(trace) == pytest.approx(1760, rel=0.1)
    done = called("make", "--shape", "counts", counts, "--interval", "6m", "--spacing", "even", "--out", out)
    assert done.exit_code == 0
    assert len(read(out)) == sum(100 + n % 24 for n in range(100))


def test_a_bad_line_is_one_error_line_and_lenient_counts_it(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "trace"
    path.write_text(jsonl({"arrival_ms": 5}, {"arrival_ms": 1}))
    reported = called("inspect", path)
    assert reported.exit_code == 1
    assert reported.output.startswith(f"error: {path}:2: arrivals must not fall: 1 after 5")
    assert "skipped: 1 falling" in called("save", path, "--lenient", "--out", tmp_path / "out").output
    assert len(read(tmp_path / "out")) == 1


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["inspect"], "give either TRACE or --from-topic"),
        (["inspect", "x", "--from-topic"], "give either TRACE or --from-topic"),
        (["inspect", "nowhere"], "no file at nowhere"),
        (["make", "--shape", "ramp", "--out", "x", "--rate", "fast"], "'fast' is not a rate"),
        (["make", "--shape", "ramp", "--out", "x", "--rate", "5/d"], "'5/d' is not a rate"),
        (["inspect", "x", "--to", "4"], "'4' is not two rates"),
        (["inspect", "x", "--to", "32:4"], "must not be above the second"),
        (["inspect", "x", "--since", "yesterday"], "'yesterday' is not a moment"),
        (["inspect", "x", "--model", "M1"], "'M1' is not THEIRS=OURS"),
        (["inspect", "x", "--scale", "0"], "is not in the range"),
        (["inspect", "x", "--order", "random"], "is not one of"),
        (["make", "--shape", "counts", "--out", "x"], "takes a file COUNTS"),
        (["make", "--shape", "ramp", "counts.csv", "--out", "x"], "the other shapes take none"),
        (["make", "--shape", "ramp", "--to", "1:2", "--out", "x"], "--to and --interval shape counts"),
        (["make", "--shape", "ramp", "--spacing", "exponential", "--out", "x"], "unknown spacing"),
    ],
)
def test_what_cannot_be_done_is_reported(arguments: list[str], fault: str) -> None:
    reported = called(*arguments)
    assert reported.exit_code != 0
    assert fault in " ".join(reported.output.split())


COUNTS = "hour,invocations\n0,20\n1,40\n"
TIMED = "arrival_ms\n0\n50\n"
REQUESTS = '{"arrival_ms": 0, "prompt": "a cat", "model": "M1"}\n'
FILES = {"counts": COUNTS, "arrivals": TIMED, "requests": REQUESTS}
NO_COUNTS = "which has no counts to shape; --scale and --speed change the rate of any trace; leave"


@pytest.mark.parametrize("verb", [["inspect"], ["save", "--out", "out.jsonl"], ["run", "--prefix", "sandbox"]])
@pytest.mark.parametrize(
    ("form", "options", "fault"),
    [
        ("arrivals", ["--to", "4:8"], f"--to has no effect on arrivals, {NO_COUNTS} it out"),
        ("arrivals", ["--limit", "1", "--to", "4:8"], "--to has no effect"),
        (
            "arrivals",
            ["--interval", "1s", "--spacing", "even"],
            f"--interval, --spacing have no effect on arrivals, {NO_COUNTS}",
        ),
        ("arrivals", ["--spacing", "poisson"], "--spacing has no effect"),
        ("requests", ["--to", "4:8"], "--to has no effect on requests"),
        ("arrivals", ["--order", "turn"], "--order has no effect without --prompts; leave it out"),
        ("arrivals", ["--since", "2h"], "--since has no effect on a file; --from-topic takes a time span; leave"),
        ("arrivals", ["--since", "2h", "--until", "1h"], "--since, --until have no effect on a file"),
    ],
)
def test_an_option_of_another_kind_of_trace_is_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, verb: list[str], form: str, options: list[str], fault: str
) -> None:
    monkeypatch.chdir(tmp_path)
    pathlib.Path(form).write_text(FILES[form])
    reported = called(verb[0], form, *options, *verb[1:])
    assert reported.exit_code == 2, reported.output
    assert fault in " ".join(reported.output.split())


@pytest.mark.parametrize(
    ("shape", "options", "fault"),
    [
        ("ramp", ["--every", "2m"], "--every has no effect with --shape ramp: it is for --shape burst; leave it out"),
        ("ramp", ["--order", "turn"], "--order has no effect without --prompts"),
        ("counts", ["counts", "--rate", "2"], "--rate has no effect with --shape counts: it is for --shape ramp or"),
        ("counts", ["counts", "--for", "2m"], "--for has no effect with --shape counts"),
    ],
)
def test_make_refuses_the_options_of_other_shapes(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, shape: str, options: list[str], fault: str
) -> None:
    monkeypatch.chdir(tmp_path)
    pathlib.Path("counts").write_text(COUNTS)
    reported = called("make", "--shape", shape, *options, "--out", "out.csv")
    assert reported.exit_code == 2, reported.output
    assert fault in " ".join(reported.output.split())
    assert not pathlib.Path("out.csv").exists()


def test_a_run_refuses_a_renaming_to_a_model_that_the_catalog_lacks(trace: pathlib.Path) -> None:
    reported = called("run", trace, "--catalog", "tiny", "--model", "*=haevy", "--prefix", "sandbox")
    assert reported.exit_code == 2, reported.output
    said = " ".join(reported.output.split())
    assert "--model *=haevy: unknown model 'haevy': did you mean" in said
    assert "did you mean 'heavy'?" in said


def test_a_trace_alone_is_published_and_another_word_is_no_command(trace: pathlib.Path) -> None:
    reported = CliRunner().invoke(main, ["replay", str(trace), "-h"], prog_name="pochade")
    assert "Usage: pochade replay run" in reported.output
    reported = called("inspekt")
    assert (reported.exit_code, "unknown command 'inspekt'" in reported.output) == (2, True)


def test_make_refuses_to_shape_a_trace_that_has_no_counts(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "arrivals.csv"
    file.write_text("arrival_ms\n0\n5\n")
    refused = CliRunner().invoke(
        main, ["replay", "make", "--shape", "counts", str(file), "--to", "4:8", "--out", str(tmp_path / "x.csv")]
    )
    assert refused.exit_code == 2
    assert "has no counts: --shape counts needs a file of them" in refused.output


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_dash_reads_the_trace_from_standard_input(pack: Callable[[bytes], bytes]) -> None:
    inspecting = [sys.executable, "-c", "from streams.cli import main; main()", "replay", "inspect", "-", "-o", "json"]
    done = subprocess.run(inspecting, input=pack(b"arrival_ms\n0\n5\n"), capture_output=True, check=True)
    assert json.loads(done.stdout)["requests"] == 2
