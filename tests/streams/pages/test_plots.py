"""Plots are the same text for the same data, and show an interval only where there is one."""

import math

from matplotlib.figure import Figure

from streams.pages.plots import gaps, markup, point, rc_params_of

RC_PARAMS = rc_params_of("#000000", "#111111", "#222222", {"lines.linewidth": 1.0})


def drawn(**ends: tuple[float | None, float | None]) -> Figure:
    figure = Figure()
    point(figure.subplots(), 1.0, 2.0, {"color": "#333333", "marker": "o"}, **ends)
    return figure


def test_the_same_figure_is_the_same_text_without_a_date() -> None:
    assert markup(drawn(), RC_PARAMS) == markup(drawn(), RC_PARAMS)
    assert "<dc:date>" not in markup(drawn(), RC_PARAMS)


def test_a_page_s_own_settings_come_before_the_shared_ones() -> None:
    assert RC_PARAMS["lines.linewidth"] == 1.0
    assert rc_params_of("#000000", "#111111", "#222222", {"axes.grid": False})["axes.grid"] is False


def test_a_point_has_a_line_for_each_interval() -> None:
    assert [len(drawn(**ends).axes[0].lines) for ends in ({}, {"x_ends": (0.5, 1.5)})] == [1, 2]
    both = drawn(x_ends=(0.5, 1.5), y_ends=(1.0, 3.0)).axes[0].lines
    assert [list(line.get_xdata()) for line in both] == [[0.5, 1.5], [1.0, 1.0], [1.0]]


def test_nothing_is_drawn_where_nothing_was_measured() -> None:
    assert gaps([1.0, 2.0]) == [1.0, 2.0]
    assert math.isnan(gaps([None])[0])
