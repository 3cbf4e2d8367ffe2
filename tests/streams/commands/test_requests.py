"""`pochade submit`, `results` and `explain` with a client that has its results already; options become fields."""

import contextlib
import dataclasses
import io
import itertools
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from pochade import Client, Kafka
from pochade.cluster import Record
from rich.console import Console

from planner.serving.admission.admission import check
from planner.serving.admission.inputs import input_name
from schemas import messages
from schemas.errors import InvalidRequest, PochadeError
from schemas.ids import seed_of
from schemas.messages import GenerateRequest, Made, Status
from schemas.topics import PROMPTS, RESULTS, SCHEMAS
from schemas.vocabulary import ALIASES, DECLARED
from streams.catalogs import load
from streams.cli import main
from streams.codec.avro import encode
from streams.codec.prompt_file import request_of
from streams.codec.requests import SYNONYMS
from streams.codec.schema_topic import announcements
from streams.commands import opening
from streams.commands.requests import fields_of, submit
from streams.commands.showing import explanation
from streams.kafka.consumers import snapshot
from streams.operator import open_request
from streams.settings import Requests, Settings
from tests.agents.stubs import a_record
from tests.builders import a_request, an_outcome
from tests.replay.runs import a_result, a_step
from tests.streams.client.memory_cluster import MemoryCluster

FOREIGN = f"memory:00/{input_name('others')}-{'0' * 16}.png"


class Deployment:
    """Answers every submission at once with a result of the given status."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *past: messages.Result) -> None:
        self.statuses: Iterator[Status | None] = itertools.repeat(Status.COMPLETED)  # None: it stays open
        self.overridden: tuple[str, ...] = ()
        self.cluster = MemoryCluster(on_write=self._answer)
        for each in announcements():
            self.cluster.arrive(SCHEMAS, "", each.value or b"")
        for result in past:
            self.cluster.arrive(RESULTS, result.request_id, encode(result))
        self.variants = {*load("tiny").served}
        monkeypatch.setattr(opening, "client", self._client)
        monkeypatch.setattr(opening, "variants", lambda _settings: self.variants)

    def _answer(self, asked: Record) -> None:
        status = next(self.statuses)
        if status is None:
            return
        path = (a_step(),) if status is Status.COMPLETED else ()
        result = a_result(*path, request_id=asked.key, status=status, reason="because")
        self.cluster.arrive(RESULTS, asked.key, encode(dataclasses.replace(result, overridden=self.overridden)))

    @contextlib.contextmanager
    def _client(self, _settings: Settings) -> Iterator[Client]:
        with Client(Kafka({}, cluster=self.cluster)) as client:  # type: ignore[arg-type]
            yield client

    def submitted(self) -> list[GenerateRequest]:
        return [request_of(json.loads(value), 0) for value in self.cluster.values(PROMPTS)]


@pytest.fixture
def deployment(monkeypatch: pytest.MonkeyPatch) -> Deployment:
    heavy = a_step(stage=1, level="heavy", worker_id="w-2", confidence=None, threshold=None, refine_from_step=3)
    escalated = a_result(a_step(confidence=0.31), heavy, request_id="r-2", prompt="two [cats]\nand a tab\t.")
    return Deployment(monkeypatch, a_result(a_step(), request_id="r-1"), escalated)


def pochade(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_submit_prints_the_id_and_sends_what_was_asked(deployment: Deployment) -> None:
    done = pochade("submit", "a red heart", "--seed", "7", "--tenant", "ann", "--deadline", "2.5")
    (request,) = deployment.submitted()
    assert done.output.strip() == request.request_id
    assert (request.prompt, request.seed, request.tenant) == ("a red heart", 7, "ann")
    assert request.deadline_ms is not None
    assert 0 < request.deadline_ms - request.created_ms <= 2500


def test_submit_and_wait_prints_the_result_and_where_the_image_is(deployment: Deployment) -> None:
    done = pochade("submit", "a red heart", "--wait")
    assert done.exit_code == 0
    assert "COMPLETED  kept: confidence 0.82 ≥ 0.55" in done.output
    assert "image  /images/ab.png" in done.output
    assert deployment.submitted()[0].deadline_ms is None


def test_submit_and_wait_fails_when_the_request_did_not_complete(deployment: Deployment) -> None:
    deployment.statuses = itertools.repeat(Status.EXPIRED)
    done = pochade("submit", "a red heart", "--wait")
    assert done.exit_code == 1
    assert "expired: because" in done.output


def test_submit_as_json_is_one_object(deployment: Deployment) -> None:
    shown = json.loads(pochade("submit", "a red heart", "--wait", "-o", "json").output)
    assert shown["request_id"] == deployment.submitted()[0].request_id
    assert shown["result"]["path"][0]["level"] == "light"


@pytest.mark.parametrize(
    ("asked", "fault"),
    [
        (("--model", "poster", "--adapter", "cady"), "did you mean 'candy'"),
        (("--model", "hevy"), "did you mean 'heavy'"),
        (("--control", f"outlin=memory:00/{input_name('default')}-{'0' * 16}.png"), "did you mean 'outline'"),
    ],
)
def test_a_name_that_the_catalog_lacks_is_refused_with_the_nearest_one(
    deployment: Deployment, asked: tuple[str, ...], fault: str
) -> None:
    done = pochade("submit", "a red heart", *asked)
    assert (done.exit_code, fault in done.stderr, deployment.submitted()) == (2, True, [])
    deployment.variants = {"turbo", "large"}
    assert pochade("submit", "a red heart", *asked).exit_code == 0, "the deployment serves another catalog"


def test_names_are_checked_without_slow_libraries() -> None:
    """They are loaded by name, so that the list of what a command can reach does not have them."""
    code = "import sys; from streams.operator import offered; offered.load('tiny'); print('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_two_deadlines_are_one_too_many(deployment: Deployment) -> None:
    done = pochade("submit", "x", "--deadline", "1", "--deadline-ms", "1000")
    assert done.exit_code == 2
    assert not deployment.submitted()


@pytest.mark.usefixtures("deployment")
def test_results_without_a_terminal_are_one_tab_separated_line_each() -> None:
    head, *lines = pochade("results").output.splitlines()
    assert head.split("\t")[0] == "ended"
    assert [line.split("\t")[5:] for line in lines] == [["r-1", "a red heart"], ["r-2", "two [cats] and a tab ."]]


@pytest.mark.usefixtures("deployment")
def test_results_as_jsonl_are_one_object_each() -> None:
    shown = [json.loads(line) for line in pochade("results", "-o", "jsonl").output.splitlines()]
    assert [result["request_id"] for result in shown] == ["r-1", "r-2"]


MADE = Made(
    variant="light", seed=77, steps=3, guidance=1.5, width=48, height=48, scheduler="DDIMScheduler", device="cpu",
    weights={"model": "ab" * 32},
)  # fmt: skip


def made_before(monkeypatch: pytest.MonkeyPatch, made: Made | None = MADE) -> Deployment:
    """A deployment that has made the image of r-1, which asked for 50 steps."""
    request = a_request(request_id="r-1", options=messages.GenerateOptions(steps=50))
    kept = a_record(an_outcome(request_id="r-1", request=request), key=b"r-1")
    monkeypatch.setattr(snapshot, "past", lambda *_, keep, **__: [each for each in [kept] if keep(each)])
    return Deployment(monkeypatch, dataclasses.replace(a_result(a_step(), request_id="r-1"), made=made))


def test_again_sends_a_request_with_all_that_made_the_image_and_says_whether_the_file_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deployment = made_before(monkeypatch)
    deployment.variants = {"another"}
    done = pochade("again", "r-1", "--wait")
    (request,) = deployment.submitted()
    assert (request.prompt, request.seed) == ("a red heart", 77)
    options = messages.GenerateOptions(
        model="light", steps=3, guidance=1.5, width=48, height=48, strict=True, reuse="off"
    )
    assert request.options == options
    assert done.output.splitlines()[0] == request.request_id
    assert done.output.splitlines()[-1] == "file   the same bytes as r-1"
    pochade("again", "r-1", "--quality", "high", "--seed", "8")
    other = deployment.submitted()[1]
    assert (other.seed, other.quality, other.options) == (8, "high", messages.GenerateOptions(steps=50, reuse="off"))


def test_an_image_of_an_older_release_is_not_made_again_and_its_seed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = made_before(monkeypatch, made=None)
    done = pochade("again", "r-1")
    assert isinstance(done.exception, PochadeError) or done.exit_code == 1
    assert f"its seed is {seed_of('r-1')}" in (done.output + str(done.exception))
    assert not deployment.submitted()


def test_explain_says_how_an_image_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made_before(monkeypatch)
    said = "light, seed 77, 3 steps, guidance 1.5, 48x48 px; DDIMScheduler, model abababababab, cpu"
    assert f"made\t{said}" in pochade("explain", "r-1").output
    assert json.loads(pochade("explain", "r-1", "-o", "json").output)["made"]["weights"] == {"model": "ab" * 32}


@pytest.mark.usefixtures("deployment")
def test_explain_tells_every_step_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = an_outcome(request_id="r-2", request=a_request(quality="low"))
    kept = [a_record(asked, key=b"r-1"), a_record(asked, key=b"r-2")]
    monkeypatch.setattr(snapshot, "past", lambda *_, keep, **__: [each for each in kept if keep(each)])
    reported = pochade("explain", "r-2").output
    assert "asked\tquality low, tier standard" in reported
    assert "0.31 < 0.55" in reported
    assert "two [cats]" in reported
    assert "w-2" in reported
    assert "escalated: light scored 0.31 < 0.55, refined on heavy from step 3" in reported
    (light, heavy) = (line.split() for line in reported.splitlines() if line.startswith(("0\t", "1\t")))
    assert (light[:4], heavy[:5]) == (["0", "light", "-", "w-1"], ["1", "heavy", "step", "3", "w-2"])


@pytest.fixture
def bare(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """A deployment whose topics hold nothing but results."""
    monkeypatch.setattr(snapshot, "past", lambda *_, **__: [])
    return deployment


@pytest.mark.usefixtures("bare")
def test_explain_of_an_unknown_id_says_how_far_back_it_looked_and_what_to_do() -> None:
    done = pochade("explain", "r-9", "--since", "36h")
    assert done.exit_code == 1
    assert "'r-9'" in done.output
    assert "within the last 1.5d" in done.output
    assert "--since 8d" in done.output
    assert "another deployment (--set kafka.prefix=NAME)" in done.output


@pytest.mark.usefixtures("deployment")
@pytest.mark.parametrize("options", [[], ["--timeout", "0.1"]])
def test_explain_of_a_request_without_a_result_says_what_it_waits_for(
    monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    words = "12 wait for heavy, which no worker serves; oldest 41 s"
    monkeypatch.setattr(open_request, "waits_for", lambda *_: words)
    done = pochade("explain", "r-9", *options)
    assert done.exit_code == 1
    assert done.output.rstrip().endswith(f": {words}")


@pytest.mark.usefixtures("deployment")
def test_explain_says_so_where_it_may_not_read_what_a_request_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: Any) -> str:
        raise PochadeError("this user may not read classified.v1")

    monkeypatch.setattr(open_request, "waits_for", denied)
    done = pochade("explain", "r-9")
    assert "no result of request 'r-9'" in done.output
    assert "not known (this user may not read classified.v1" in done.output


@pytest.mark.usefixtures("bare")
def test_explain_of_an_unknown_id_that_is_waited_for_names_what_else_may_be() -> None:
    done = pochade("explain", "r-9", "--timeout", "0.1")
    assert done.exit_code == 1
    assert "request r-9 has no result after 0.1 s" in done.output
    assert "another deployment (--set kafka.prefix=NAME)" in done.output


def test_a_duration_that_is_none_says_how_one_looks(deployment: Deployment) -> None:
    done = pochade("results", "--since", "yesterday")
    assert done.exit_code == 2
    assert "such as 10m" in done.output
    assert not deployment.cluster.opened


def test_what_was_not_given_is_left_to_the_request() -> None:
    given = {"seed": None, "tenant": "default", "n": None, "adapters": (), "strict": False, "size": None}
    assert fields_of(given) == {"tenant": "default"}


def test_what_was_given_becomes_a_request_that_reads() -> None:
    given = {"quality": "high", "n": 2, "adapters": ("ink",), "strict": True, "size": "64x48", "guidance": 1.5}
    request = request_of({**fields_of(given), "prompt": "a red heart"}, 5)
    options = request.options
    assert (request.quality, options.n, options.adapters, options.strict) == ("high", 2, ("ink",), True)
    assert (options.width, options.height, options.guidance) == (64, 48, 1.5)
    assert request.request_id


def test_components_become_names_weights_and_images_in_one_order() -> None:
    outline, star = (f"memory:00/{input_name('default')}-{digit * 16}.png" for digit in "01")
    given = {
        "adapters": ("candy:0.8", "mint"), "control": (f"outline={outline}",), "image": star, "strength": 0.5,
        "mask": star,
    }  # fmt: skip
    options = request_of({**fields_of(given), "prompt": "a red heart"}, 5).options
    assert (options.adapters, options.adapter_weights) == (("candy", "mint"), (0.8, 1.0))
    assert (options.controls, options.control_images, options.control_weights) == (("outline",), (outline,), ())
    assert (options.image, options.strength, options.mask) == (star, 0.5, star)
    assert fields_of({"adapters": ("candy",)}) == {"adapters": ["candy"]}
    assert fields_of({"seed": 0, "guidance": 0.0, "steps": None, "strict": False}) == {"seed": 0, "guidance": 0.0}
    assert fields_of({"control": (f"outline:0.5={outline}",)})["control_weights"] == [0.5]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"adapters": ("candy:much",)},
            r"adapters must be NAME or NAME:WEIGHT with a number, such as candy:0.8: got .'candy:much'",
        ),
        ({"control": ("outline",)}, "control must be NAME=URI"),
        ({"control": ("=memory:00/x.png",)}, "control must be NAME=URI"),
    ],
)
def test_a_component_that_is_none_is_a_usage_error(given: dict[str, Any], message: str) -> None:
    with pytest.raises(click.BadParameter, match=message):
        fields_of(given)


def test_an_empty_id_would_be_everybodys_and_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="request_id must not be empty"):
        request_of({"prompt": "a red heart", "request_id": ""}, 5)


@pytest.mark.parametrize("size", ["64", "x48", "64x", "axb", "64:48"])
def test_a_size_that_is_none_is_a_usage_error(size: str) -> None:
    with pytest.raises(click.BadParameter, match="WIDTHxHEIGHT"):
        fields_of({"size": size})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((" ",), "prompt must not be empty"),
        (("a red heart", "--size", "100x104"), "width must be a multiple of 8 px: got 100"),
        (("a red heart", "--steps", "1000"), "1000 is not in the range 1<=x<=200"),
        (("a red heart", "-n", "99"), "n must be from 1 to 8: got 99"),
        (("a red heart", "--adapter", "candy:9"), "adapter_weights must be from -4 to 4: got 9"),
        (("a red heart", "--strength", "0.5"), "strength must come with image"),
        (("a red heart", "--image", "star.png"), "image must be the URI of an image in the store: got 'star.png'"),
        (("a red heart", "--image", FOREIGN), "`pochade put --tenant default` stores it"),
        (("a red heart", "--deadline", "1e6"), "deadline_ms must be at most 259200 s ahead"),
    ],
)
def test_what_would_be_rejected_is_not_sent(deployment: Deployment, words: tuple[str, ...], message: str) -> None:
    done = pochade("submit", *words)
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())
    assert not deployment.submitted()


def test_what_the_variant_overrode_is_shown(deployment: Deployment) -> None:
    deployment.overridden = ("model: sdxxl -> light",)
    assert "≥ 0.55; overridden: model: sdxxl -> light\n" in pochade("submit", "x", "--wait").output
    out = io.StringIO()
    shown = dataclasses.replace(a_result(a_step()), overridden=deployment.overridden)
    explanation(shown, None, Console(file=out, width=120))
    assert "overridden\tmodel: sdxxl -> light" in out.getvalue().splitlines()


def test_another_level_than_of_the_quality_asked_for_is_shown_first(deployment: Deployment) -> None:
    deployment.overridden = ("steps: 9 -> 4", "quality: high -> middle")
    *_, first, second, _ = pochade("submit", "x", "--quality", "high", "--wait").output.splitlines()
    assert first == "overridden quality: high -> middle; --model NAME asks for one level strictly"
    assert second.endswith("≥ 0.55; overridden: steps: 9 -> 4")


def test_an_explanation_tells_where_the_time_of_generating_went() -> None:
    out = io.StringIO()
    shown = dataclasses.replace(a_result(a_step()), load_ms=1.25, encode_ms=2.0, denoise_ms=30.0, decode_ms=4.0)
    explanation(shown, None, Console(file=out, width=120))
    assert "load 1.2 ms, encode 2.0 ms, denoise 30.0 ms, decode 4.0 ms" in out.getvalue()


LONG = "file:///" + "x" * 150 + ".png"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_an_explanation_cuts_no_path_and_pads_no_line_of_a_pipe(*, is_terminal: bool) -> None:
    out = io.StringIO()
    shown = dataclasses.replace(a_result(a_step()), image_uri=LONG)
    explanation(shown, None, Console(file=out, width=80, force_terminal=is_terminal, no_color=True))
    text = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    assert "x" * 150 + ".png" in re.sub(r"\s", "", text)
    assert is_terminal or not any(line != line.rstrip() for line in text.splitlines())
    assert is_terminal or "stage\tlevel\tover" in text


def test_an_explanation_names_what_was_asked() -> None:
    out = io.StringIO()
    options = messages.GenerateOptions(model="light", adapters=("mint", "dusk"))
    asked = a_request(quality="low", tier="interactive", options=options)
    explanation(a_result(a_step()), asked, Console(file=out))
    seed = f"seed {seed_of(asked.request_id)} (of its id)"
    said = f"quality low, tier interactive, {seed}, model light, adapters mint, dusk"
    assert f"asked\t{said}" in out.getvalue().splitlines()


def test_an_empty_prompt_is_refused_by_the_command_in_the_words_of_the_pipeline(deployment: Deployment) -> None:
    done = pochade("submit", "")
    assert (done.exit_code, deployment.submitted()) == (2, [])
    with pytest.raises(InvalidRequest) as caught:
        check(request_of({"prompt": ""}, 5), Requests(), 5)
    said = str(caught.value).partition(" (request")[0]
    assert f"nothing was sent: {said}" in " ".join(done.output.split())


def test_a_field_by_whatever_name_is_an_option_or_is_answered_with_the_option_that_is_meant() -> None:
    there = {flag for each in submit.params for flag in each.opts}
    for name in {*ALIASES, *DECLARED} - {"prompt", "request_id"}:  # its argument, and what it makes
        flag = f"--{name.replace('_', '-')}"
        assert flag in there or "Did you mean" in pochade("submit", "a red heart", flag, "1").output, name


@pytest.mark.parametrize(
    ("flag", "meant"),
    [
        ("--priority", "--tier"),
        ("--num-outputs", "--images"),
        ("--cfg-scale", "--guidance"),
        ("--deadline-s", "--deadline?"),
        ("--deadline-in-ms", "--deadline-ms"),
        ("--width", "--size"),
        ("--adapter-weights", "--adapter?"),
        ("--lora", "--adapter?"),
    ],
)
def test_the_name_of_another_door_is_answered_with_the_option_that_states_it(flag: str, meant: str) -> None:
    assert f"No such option: {flag} Did you mean {meant}" in pochade("submit", "a red heart", flag, "1").output


def test_every_name_of_another_product_leads_to_a_field_that_is_there() -> None:
    assert {own for names in SYNONYMS.values() for own in names} <= {*ALIASES, *DECLARED}
