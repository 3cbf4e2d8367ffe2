"""What a catalog may say of a judge, in its file."""

import pytest

from planner.catalog.judges import Calibration
from planner.catalog.validate import InvalidCatalog
from schemas.errors import Unknown
from streams.catalogs import missing_models
from streams.parsing.catalog import parse

BASE = """
[variants.light]
engine = "profile"
model = ""
scheduler = ""
steps = 1
guidance = 1.0
width = 8
height = 8
latency_ms = {1 = 1.0}
load_ms = 1

[discriminators.look]
threshold = 0.5
"""


HTTP = 'engine = "http"\noptions = {url = "http://judge"}'
TIMED = 'engine = "http"\noptions = {url = "http://judge", timeout_s = 0}\nlatency_ms = 1'


def parsed(lines: str) -> object:
    return parse(BASE + lines, "mine").discriminator("look")


def test_a_judge_is_named_with_its_model_options_calibration_and_times_by_batch_size() -> None:
    look = parse(
        BASE + 'engine = "classifier"\nmodel = "OWNER/NAME@main"\noptions = {label = "real"}\ndevice = "cuda:1"\n'
        "calibration = {scale = 2.0, shift = -1}\nlatency_ms = {1 = 3, 8 = 9.5}\n",
        "mine",
    ).discriminator("look")
    assert (look.engine, look.model, look.options, look.device) == (
        "classifier", "OWNER/NAME@main", {"label": "real"}, "cuda:1",
    )  # fmt: skip
    assert look.calibration == Calibration(2.0, -1.0)
    assert look.latency_ms == {1: 3.0, 8: 9.5}
    assert look.judging_ms == 3.0


def test_a_plain_number_is_the_time_of_one_image() -> None:
    assert parse(BASE + 'engine = "profile"\nlatency_ms = 3.81\n', "mine").discriminator("look").latency_ms == {1: 3.81}


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ('engine = "clip-scor"\nlatency_ms = 1', "clip-score"),
        ('engine = "clip-score"\nlatency_ms = 1', "model must be named"),
        ('engine = "learned"\nlatency_ms = 1', "folder must be named"),
        ('engine = "reward"\nmodel = "a/b"\noptions = {kind = "picscore"}\nlatency_ms = 1', "pickscore"),
        ('engine = "reward"\nmodel = "a/b"\nlatency_ms = 1', "options.kind must be given"),
        ('engine = "classifier"\nmodel = "a/b"\nlatency_ms = 1', "options.label must be given"),
        ('engine = "classifier"\nmodel = "a/b"\noptions = {lable = "x"}\nlatency_ms = 1', "lable.*label"),
        ('engine = "http"\noptions = {url = "judge:80"}\nlatency_ms = 1', "options.url must be http"),
        (TIMED, "timeout_s must be seconds"),
        (HTTP + '\nlatency_ms = {2 = 1}', "measured at batch size 1"),
        (HTTP + '\nlatency_ms = {1 = 2, 8 = 1}', "growing with the batch"),
        ('engine = "profile"\nlatency_ms = -1', ">= 0"),
        ('engine = "profile"\nlatency_ms = 1\ncalibration = {scale = 1, shift = 0}', "left out for profile"),
        (HTTP + '\nlatency_ms = 1\ncalibration = {scale = 0, shift = 0}', "> 0"),
        ('engine = "clip-score"\nmodel = "a/b"\ndevice = "gpu"\nlatency_ms = 1', "device must be cpu"),
    ],
)  # fmt: skip
def test_what_is_impossible_is_refused(lines: str, says: str) -> None:
    with pytest.raises((InvalidCatalog, Unknown), match=says):
        parsed(lines)


def test_a_judges_folder_that_is_not_there_is_missing() -> None:
    catalog = parse(BASE + 'engine = "clip-score"\nmodel = "models/nothing"\nlatency_ms = 1', "mine")
    assert missing_models(catalog, "") == ["discriminator look: models/nothing"]


def test_a_score_beyond_confidences_is_none_unless_it_is_calibrated() -> None:
    look = parse(BASE + HTTP + "\nlatency_ms = 1", "mine").discriminator("look")
    assert look.confidence(0.4) == 0.4
    assert look.confidence(3.0) != look.confidence(3.0), "NaN"
    assert Calibration(1e9, 0).confidence(1.0) == 1.0
    assert Calibration(1e9, 0).confidence(-1.0) == 0.0
