"""What the chart's values may be, without Helm: the schema, and what is generated from the product."""

import pathlib

import pytest
import yaml
from jsonschema import Draft202012Validator

from infra.bin.observing.documents import chart_files
from tests.infra.chart.rendering import CHART, MISTAKES, VALUE_FILES, merged, schema, values


@pytest.mark.parametrize("name", VALUE_FILES)
def test_the_schema_takes_the_shipped_values(name: str) -> None:
    assert [error.message for error in Draft202012Validator(schema()).iter_errors(values(name))] == []


def test_each_of_ten_mistakes_is_refused_by_a_sentence_that_names_its_key() -> None:
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    wrong = merged(defaults, yaml.safe_load((pathlib.Path(__file__).parent / "mistakes.yaml").read_text()))
    errors = list(Draft202012Validator(schema()).iter_errors(wrong))
    assert {".".join(map(str, error.absolute_path)) for error in errors} == MISTAKES
    assert len(errors) == len(MISTAKES) == 10


def test_a_setting_that_no_process_knows_is_refused_at_any_depth() -> None:
    defaults = values("laptop")
    for settings in ({"planer": {}}, {"planner": {"scale": {"warn": 1}}}, {"tenants": {"acme": {"rate": 1}}}):
        assert list(Draft202012Validator(schema()).iter_errors(merged(defaults, {"settings": settings})))
    taken = {
        "planner": {"scale": {"warm": 1}},
        "tenants": {"acme": {"rate_rps": 1}},
        "kafka": {"properties": {"a.b": "c"}},
    }
    assert not list(Draft202012Validator(schema()).iter_errors(merged(defaults, {"settings": taken})))


@pytest.mark.parametrize("name", ["files/alerts.yaml", "files/strimzi.yaml", "values.schema.json"])
def test_what_is_generated_for_the_chart_is_as_the_product_says(name: str) -> None:
    assert (CHART / name).read_text() == chart_files()[name], "run infra/bin/observability"


def test_each_value_is_of_the_schema_and_each_of_the_schema_is_a_value() -> None:
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(schema()["properties"]) == {*defaults, "global"}
    of_class = schema()["properties"]["workerDefaults"]["properties"]
    assert set(of_class) == set(defaults["workerDefaults"])
    assert set(schema()["properties"]["roles"]["properties"]) == {*defaults["roles"], "indexer"}
