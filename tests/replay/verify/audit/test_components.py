"""Whether an audit finds a result that names other components than its request asked for."""

import dataclasses
from typing import Any

import pytest

from planner.catalog.model import Catalog
from planner.serving.ending.ledger import result_of
from planner.serving.ending.outcomes import completed
from replay.verify.audit.components import ComponentFindings, NamedComponents
from replay.verify.audit.figures import as_json, verdict
from schemas.messages import GenerateOptions, GenerateRequest, Result, Status
from schemas.topics import CLASSIFIED, RESULTS
from streams.codec.avro import encode
from tests.builders import NOW_MS, a_catalog, a_classified, a_job, a_request, an_image, composed_variant
from tests.replay.verify.audit.topics import Topics

CANDY: dict[str, Any] = {"model": "poster", "adapters": ("candy",), "adapter_weights": (0.5,)}
SAID = ("base:poster", "adapter:candy@0.5")
OUTLINE = "memory:00/input.0123456789abcdef-0123456789abcdef.png"
CATALOG = a_catalog(on_request={"styles": composed_variant()})


def asked(name: str = "a", **options: Any) -> GenerateRequest:
    return a_request(request_id=name, options=GenerateOptions(**options))


def generated(request: GenerateRequest, said: tuple[str, ...] = SAID, level: str = "styles", **changes: Any) -> Result:
    job = a_job(a_classified(request), level=level, variant=level)
    ended = completed(an_image(job, components=said), None, None, reason="", by="t", policy="", now_ms=NOW_MS)
    return dataclasses.replace(result_of(ended), **changes)


def found(request: GenerateRequest, result: Result, catalog: Catalog = CATALOG) -> ComponentFindings:
    named = NamedComponents(catalog)
    named.ask(request)
    return named.findings({request.request_id: result})


def test_a_result_may_name_what_was_asked_and_components_without_a_digest_are_counted() -> None:
    findings = found(asked(**CANDY), generated(asked(**CANDY)))
    assert (findings.checked, findings.wrong, findings.unlisted) == (1, {}, ())
    assert findings.undigested == {"base:poster": 1, "adapter:candy": 1}


def test_a_component_with_a_digest_is_compared_where_it_is_loaded() -> None:
    digested = tuple(
        dataclasses.replace(each, sha256="ab" * 32) if each.kind == "base" else each
        for each in composed_variant().components
    )
    catalog = a_catalog(on_request={"styles": composed_variant(components=digested)})
    assert found(asked(**CANDY), generated(asked(**CANDY)), catalog).undigested == {"adapter:candy": 1}


@pytest.mark.parametrize(
    ("said", "level"),
    [
        (("base:poster",), "styles"),  # left out
        (("base:poster", "adapter:candy@1"), "styles"),  # of another weight
        (("base:chalk", "adapter:candy@0.5"), "styles"),  # on another base
        (("base:poster", "adapter:frost@0.5"), "styles"),  # another one
        ((), "heavy"),  # by a level that has none
    ],
)
def test_a_result_that_names_others_is_found(said: tuple[str, ...], level: str) -> None:
    wrong = found(asked(**CANDY), generated(asked(**CANDY), said, level)).wrong
    assert "asked for base:poster, adapter:candy@0.5 and says" in wrong["a"]


def test_a_result_whose_path_names_others_is_found() -> None:
    result = dataclasses.replace(generated(asked(**CANDY), ("base:poster",)), components=SAID)
    assert "and its path base:poster" in found(asked(**CANDY), result).wrong["a"]


def test_what_was_completed_though_nothing_honours_it_is_found() -> None:
    request = asked(model="chalk", adapters=("candy",))
    result = generated(request, ("base:chalk",))
    assert "styles completed what nothing honours: adapter candy is for poster" in found(request, result).wrong["a"]


def test_an_input_of_another_tenant_is_found() -> None:
    request = asked(controls=("outline",), control_images=(OUTLINE,))
    result = generated(request, ("base:poster", "control:outline@1"))
    assert "is another tenant's" in found(request, result).wrong["a"]


@pytest.mark.parametrize(("said", "level"), [(("base:poster", "adapter:gone@1"), "styles"), ((), "dropped")])
def test_what_the_catalog_lists_no_longer_is_counted_and_breaks_nothing(said: tuple[str, ...], level: str) -> None:
    result = dataclasses.replace(generated(asked(**CANDY), said), level=level)
    findings = found(asked(**CANDY), result)
    assert (findings.wrong, findings.unlisted) == ({}, ("a",))


def test_requests_that_name_nothing_and_those_that_were_not_completed_are_not_compared() -> None:
    assert found(asked(), generated(asked(), (), "light")).checked == 0
    assert found(asked(**CANDY), generated(asked(**CANDY), (), status=Status.EXPIRED)).checked == 0


def test_what_lies_on_the_topics_breaks_the_promise_with_a_sentence() -> None:
    topics, request = Topics(), asked(**CANDY)
    topics.ask("a")
    topics.write(CLASSIFIED, "a", encode(a_classified(request)))
    topics.write(RESULTS, "a", encode(generated(request, ("base:poster",))))
    figures = topics.tally(catalog=CATALOG).figures()
    assert verdict(figures) == (
        "1 results name other components than were asked (a: asked for base:poster, adapter:candy@0.5 and says styles "
        "with base:poster)"
    )
    assert as_json(figures, None)["components_wrong"] == 1
    assert verdict(topics.tally().figures()) is None, "without a catalog nothing is compared"


def test_a_catalog_without_components_has_nothing_compared() -> None:
    topics = Topics()
    topics.write(CLASSIFIED, "a", b"not read")
    assert topics.tally(catalog=a_catalog()).figures().unreadable == {}
