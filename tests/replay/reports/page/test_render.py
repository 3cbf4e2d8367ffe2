"""The page of a report, as a browser, a phone and a screen reader get it."""

import functools
import re
from collections import Counter
from html.parser import HTMLParser
from typing import Any

import pytest

from replay.reports.page.canvas import plot, steps
from replay.reports.page.render import render, row
from tests.replay.reports.samples import CHANCE, a_change, a_policy, a_report

MANY = [f"policy-{number}" for number in range(9)]


class Page(HTMLParser):
    """Tags with their attributes, and the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]


@functools.cache
def the_page() -> str:
    return render(a_report())


def test_nothing_is_loaded_and_nothing_runs() -> None:
    html = the_page()
    page = Page(html)
    assert not page.all("script") + page.all("link") + page.all("img") + page.all("iframe")
    loaded = [a[name] for _, a in page.tags for name in ("src", "href", "xlink:href") if name in a]
    assert all(target.startswith("#") for target in loaded)
    assert "@import" not in html
    assert "url(http" not in html


def test_every_plot_has_a_text_a_caption_and_units_on_its_axes() -> None:
    page = Page(the_page())
    plots = [svg for svg in page.all("svg") if svg.get("role") == "img"]
    assert len(plots) == 9
    assert all(len(svg["aria-label"]) > 20 for svg in plots)
    assert len(page.all("figcaption")) == len(plots)
    for unit in ("requests a second", "% of requests", "% of answers", "s of work a worker", "workers alive"):
        assert unit in page.text
    assert page.text.count("time since the start (s)") == 8


def test_drawings_share_no_ids() -> None:
    ids = Counter(attributes["id"] for _, attributes in Page(the_page()).tags if "id" in attributes)
    assert [name for name, count in ids.items() if count > 1] == []


def test_colours_come_from_the_page_so_that_dark_screens_have_their_own() -> None:
    html = the_page()
    assert "prefers-color-scheme: dark" in html
    drawn = html[html.index("<figure>") :]
    assert set(re.findall(r"(?:stroke|fill): (#\w+)", drawn)) <= {"#ffffff"}  # the clip paths' and nothing that shows
    assert set(re.findall(r"var\((--[\w-]+)\)", html)) <= set(re.findall(r"(--[\w-]+):", html))


def test_a_policy_has_one_look_in_every_plot_and_none_has_anothers() -> None:
    html = render(a_report({name: a_policy() for name in (*MANY, CHANCE)}))
    legend = re.findall(r'<path d="M0 7h40" .*?stroke: var\((.*?)\).*?>.*?</svg>(.*?)</li>', html)
    assert [name for _, name in legend] == [*MANY, CHANCE]
    shown = re.findall(r"<li>(.*?)</svg>", html)
    assert len(set(shown)) == len(legend), "two policies look alike"
    assert legend[-1][0] == "--soft"


def test_the_split_by_chance_is_drawn_and_its_row_explained() -> None:
    page = Page(the_page())
    (label,) = [svg["aria-label"] for svg in page.all("svg") if "up is better" in svg.get("aria-label", "")]
    assert CHANCE in label
    assert f"{CHANCE} is the baseline of every comparison" in page.text
    assert "baseline of every" not in Page(render(a_report({"ours": a_policy()}))).text, "none was simulated"


def test_every_policy_stands_in_the_table_with_its_interval() -> None:
    html = render(a_report({"ours": a_policy(violation_rate=[0.01, 0.02]), CHANCE: a_policy(quality=[0.8, 0.8])}))
    assert "1.50 %<small>0.00 % to 7.85 %</small>" in html  # an interval of few seeds stops at what is possible
    assert CHANCE in html


def test_an_interval_ends_at_what_is_possible() -> None:
    wide = a_policy(quality=[0.9, 0.99], violation_rate=[0.9, 0.99], heavy_share=[0.9, 0.99])
    figures = row(a_report({"ours": wide, CHANCE: a_policy(quality=[0.8, 0.8])}), "ours")
    intervals = " ".join(cell["interval"] for cell in figures["cells"])
    assert wide["interval"]["quality"][1] > 1
    assert "1.0000" in intervals
    assert re.findall(r"to (\S+) %", intervals) == ["100.00", "100.0"]


def test_a_band_of_shares_ends_at_all_of_them() -> None:
    _, axes = plot("x", "y")
    steps(axes, [0, 1], {"mean": [95.0, 96.0], "half": [20.0, 20.0]}, {"color": "black"}, 100)
    (band,) = axes.collections
    assert band.get_paths()[0].vertices[:, 1].max() == 100


def test_the_baseline_is_drawn_first_wherever_it_stands_in_the_report() -> None:
    labels = [
        svg["aria-label"] for svg in Page(the_page()).all("svg") if "Answered in time" in svg.get("aria-label", "")
    ]
    (label,) = labels
    assert label.index(CHANCE) < label.index("ours")


def test_fid_is_reported_as_fid() -> None:
    policies = {"ours": a_policy(fid=[20.25], quality=[-20.25]), CHANCE: a_policy(fid=[21.0], quality=[-21.0])}
    page = Page(render(a_report(policies, scale="fid")))
    assert "20.25" in page.text
    assert "FID (up is better)" in page.text
    assert "-20.25" not in page.text.replace("−", "-")  # noqa: RUF001


def test_what_comes_from_a_report_is_escaped() -> None:
    policy = a_policy() | {"changes": [a_change(reason="<b>bold</b> & more")]}
    html = render(a_report({"<i>x</i>": policy, CHANCE: a_policy()}))
    assert "<b>bold" not in html
    assert "<i>x" not in html
    assert "&lt;b&gt;bold&lt;/b&gt; &amp; more" in html


@pytest.mark.parametrize("empty", ["quality", "violation_rate", "heavy_share"])
def test_a_report_with_nothing_to_tell_of_a_figure_is_drawn_all_the_same(empty: str) -> None:
    policy: dict[str, Any] = a_policy()
    policy[empty] = None
    policy["by_seed"].pop(empty)
    policy["series"][empty] = {"mean": [None] * 4}
    report = a_report({"ours": policy})
    report["setup"]["seeds"] = 1
    assert "–" in render(report)  # noqa: RUF001


def test_capacities_that_are_far_above_the_demand_are_reported_instead_of_drawn() -> None:
    report = a_report()
    report["policies"]["ours"]["series"]["capacity_rps"] = {"mean": [50.0, 60.0, 70.0, None]}
    report["policies"][CHANCE]["series"]["capacity_rps"] = {"mean": [5.0, 60.0, 70.0, None]}
    assert "always above the frame: ours." in render(report)


def test_the_same_report_makes_the_same_page() -> None:
    assert render(a_report()) == the_page()
