"""What requests of a run with components name."""

import io
import pathlib
from collections import Counter

import pytest
from PIL import Image

from planner.catalog.components import unhonoured
from planner.catalog.entries import Variant
from planner.serving.admission.inputs import check_inputs
from replay.verify.chaos.schedule import SLOW, Fault, draw_requests
from replay.verify.chaos.weights.orders import store_outline, with_components
from streams import catalogs
from streams.store.folder import FolderImageStore
from tests.builders import a_request

OUTLINE = "memory:00/input.0123456789abcdef-0123456789abcdef.png"


@pytest.fixture(scope="module")
def styles() -> Variant:
    return catalogs.load("tiny").level("styles")


def test_requests_name_what_there_is_and_what_fits_together(styles: Variant) -> None:
    plain = draw_requests("run", 400, 2, 1, [])
    drawn = with_components(plain, styles, OUTLINE, seed=1)
    assert drawn == with_components(plain, styles, OUTLINE, seed=1) != with_components(plain, styles, OUTLINE, seed=2)
    options = [each.row.wish.options for each in drawn]
    assert not any(unhonoured(each, styles.offer) for each in options)
    count = Counter(each.model for each in options)
    assert set(count) == {"", *styles.bases}
    assert count[styles.bases[0]] > count[styles.bases[1]]
    assert {name for each in options for name in each.adapters} == {
        each.name for each in styles.components if each.kind == "adapter"
    }
    assert any(len(each.adapters) == 2 for each in options)
    assert any(each.controls for each in options)
    assert {each.n for each in options} == {1, 2}
    assert [each.row.wish.tier for each in drawn] == [each.row.wish.tier for each in plain]


def test_a_request_that_is_a_fault_stays_one(styles: Variant) -> None:
    slow = Fault(number=0, at_ms=0, kind="slow", target="", lasts_ms=0, dice=1)
    drawn = with_components(draw_requests("run", 5, 2, 1, [slow]), styles, OUTLINE, seed=1)
    assert drawn[0].row.wish == SLOW


def test_the_outline_is_an_image_that_requests_of_its_tenant_may_name(tmp_path: pathlib.Path) -> None:
    store = FolderImageStore(tmp_path)
    uri = store_outline(store, 48, 48, "default")
    with Image.open(io.BytesIO(store.get(uri))) as image:
        assert image.size == (48, 48)
    request = a_request()
    options = type(request.options)(model="poster", controls=("outline",), control_images=(uri,))
    check_inputs(a_request(options=options))
