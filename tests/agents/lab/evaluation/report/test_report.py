"""The page: whole in itself, verdicts first, everything described."""

import base64
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from typing import Any

import pytest
from PIL import Image

from agents.lab.evaluation.report.report import Grid, figure_text, interval_text, points_text, render
from agents.lab.evaluation.summary import summarise
from agents.profiling.statistics.intervals import Resampling
from tests.agents.lab.evaluation.builders import an_evaluation, with_the_pair_alone

HOW = Resampling(seed=1, resamples=20)
WHOLE = an_evaluation(80)
GRID = Grid(title="Easy <prompts>", image=Image.new("RGB", (48, 48), "red"), alt="a red square", caption="light")


class Page(HTMLParser):
    """Its images, and the headings in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.images: list[dict[str, str | None]] = []
        self.headings: list[str] = []
        self._inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag in ("h1", "h2")
        if tag == "img":
            self.images.append(dict(attrs))

    def handle_data(self, data: str) -> None:
        if self._inside and data.strip():
            self.headings.append(data.strip())
            self._inside = False


@cache
def summary() -> dict[str, Any]:
    return summarise(WHOLE, HOW, {"classifier: AUC": "a bag of words & nothing more"})


@cache
def page() -> str:
    return render(WHOLE, summary(), [GRID])


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plots are made, but not drawn, which is most of the time: for tests that read only words."""
    monkeypatch.setattr("agents.lab.evaluation.report.report.svg", lambda _: "<svg/>")


def test_the_page_needs_nothing_from_outside() -> None:
    assert "http" not in page()
    assert not re.search(r"<(script|link)\b", page())
    assert all((image["src"] or "").startswith("data:") for image in Page(page()).images)


def test_every_image_is_described_and_every_plot_is_svg() -> None:
    images = Page(page()).images
    assert all(len(image["alt"] or "") > 5 for image in images)
    plots = [image["src"] or "" for image in images if "svg+xml" in (image["src"] or "")]
    assert len(plots) == 2 + 2 * 3 + 1 + 1  # levels; share, ROC and reliability of two pairs; classes; steps
    assert all(b"<svg" in base64.b64decode(source.split(",")[1]) for source in plots)


def test_the_verdicts_come_before_anything_else() -> None:
    first = page().index('aria-label="Verdicts"')
    assert first < page().index("<img")
    assert Page(page()).headings[0].endswith("numbers reached, on 80 fresh prompts")
    for verdict in summary()["verdicts"]:
        assert verdict["name"] in page()[first : page().index("<h2>")]


def test_titles_and_notes_are_escaped() -> None:
    assert "Easy &lt;prompts&gt;" in page()
    assert "a bag of words &amp; nothing more" in page()


def test_the_same_evaluation_gives_the_same_page() -> None:
    assert render(WHOLE, summary(), [GRID]) == page()


def test_what_was_not_measured_leaves_no_empty_section() -> None:
    bare = with_the_pair_alone(WHOLE)
    text = render(bare, summarise(bare, HOW))
    assert not {"Starting late", "Samples"} & set(Page(text).headings)
    assert "not measured" in text


@pytest.mark.usefixtures("undrawn")
def test_a_gain_that_could_be_nothing_is_called_so() -> None:
    silent = replace(WHOLE.main, light="large")  # a pair that always ties
    evaluation = replace(WHOLE, pairs={"main": silent})
    assert "no gain shown" in render(evaluation, summarise(evaluation, HOW))


@pytest.mark.usefixtures("undrawn")
def test_what_could_not_be_looked_at_is_told() -> None:
    text = render(WHOLE, summary(), [GRID], ["a classifier: <none> found"])
    assert "a classifier: &lt;none&gt; found" in text
    assert "Not looked at" not in Page(page()).headings


def test_numbers_are_written_for_people() -> None:
    assert figure_text(None) == "–"  # noqa: RUF001
    assert (figure_text(36.3636, None), figure_text(0.5)) == ("36.4", "0.500")
    assert points_text(-0.0123) == "−1.2"  # noqa: RUF001
    assert (interval_text([0.1, 0.25]), interval_text([None, 0.2]), interval_text(None)) == ("0.100 to 0.250", "", "")
