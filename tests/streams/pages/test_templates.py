"""What is put into a page is escaped, and what is not given is an error."""

import jinja2
import pytest

from streams.pages.templates import template


def test_a_page_needs_all_its_values() -> None:
    with pytest.raises(jinja2.UndefinedError):
        template("replay.traces", "trace.html", {}).render()


def test_markup_in_a_value_is_text() -> None:
    values = {"found": {"trace": "<b>", "source": ""}, "lines": [("<i>", "&")], "drawn": ""}
    page = template("replay.traces", "trace.html", {}).render(values)
    assert "<b>" not in page
    assert "&lt;b&gt;" in page
