import base64
import dataclasses
import io
import re

from PIL import Image

from replay.load.driver import audit
from replay.reports.demo_report import build, open_images
from replay.reports.gallery import SHOWN_PX, duration, render, shown
from schemas.messages import Result, Status
from streams.store.port import MemoryImageStore
from tests.replay.reports.test_report import facts
from tests.replay.runs import a_generated_result, a_result, a_step, an_escalated_result, png, stored


def page_of(store: MemoryImageStore, *results: Result) -> str:
    audited = audit([result.request_id for result in results], results)
    return render(build(audited, *open_images(results, store), facts()), results, store)


def inline(page: str) -> list[bytes]:
    return [base64.b64decode(data) for data in re.findall(r'src="data:image/png;base64,([^"]+)"', page)]


def test_the_page_holds_every_image_and_asks_nothing_of_the_network() -> None:
    store = MemoryImageStore()
    page = page_of(store, a_generated_result(store, png("green")))
    assert inline(page) == [png("green")]
    assert not re.search(r"https?://|<script|<link|@import|url\(", page)


def test_a_kept_image_says_why() -> None:
    store = MemoryImageStore()
    assert "kept: confidence 0.82 ≥ 0.55" in page_of(store, a_generated_result(store))


def test_an_escalated_request_shows_the_rejected_draft_and_says_why() -> None:
    store = MemoryImageStore()
    page = page_of(store, an_escalated_result(store))
    assert inline(page) == [png("grey"), png("blue")]
    assert "escalated: light scored 0.31 &lt; 0.55, generated again on heavy" in page


def test_a_prompt_cannot_write_html() -> None:
    store = MemoryImageStore()
    page = page_of(store, a_generated_result(store, prompt='<script>alert("x")</script> & \' "'))
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_a_request_without_an_image_says_what_became_of_it() -> None:
    store = MemoryImageStore()
    page = page_of(store, a_result(status=Status.EXPIRED, reason="it was too late"))
    assert "expired: it was too late" in page
    assert "0 of 1 prompts became images" in page


def test_an_image_that_has_gone_is_reported_not_hidden() -> None:
    assert "is not an image of this store" in page_of(MemoryImageStore(), a_result(a_step()))


def test_the_draft_of_a_request_that_failed_later_is_shown() -> None:
    store = MemoryImageStore()
    failed = a_result(a_step(image=stored(store, png("pink"))), status=Status.FAILED, reason="the heavy model broke")
    assert inline(page_of(store, failed)) == [png("pink")]


def test_only_the_groups_that_have_requests_can_be_chosen() -> None:
    store = MemoryImageStore()
    page = page_of(store, a_generated_result(store))
    assert 'id="show-kept"' in page
    assert 'id="show-escalated"' not in page
    assert 'id="show-unpainted"' not in page


def test_tiny_images_keep_their_bytes_and_large_ones_are_shrunk() -> None:
    tiny = shown(png())
    assert tiny.is_tiny
    assert base64.b64decode(tiny.data_uri.partition(",")[2]) == png()
    large = shown(png(size=(2048, 1024)))
    with Image.open(io.BytesIO(base64.b64decode(large.data_uri.partition(",")[2]))) as image:
        assert image.size == (SHOWN_PX, SHOWN_PX // 2)
    assert (large.width, large.height, large.is_tiny) == (2048, 1024, False)


def test_images_of_other_formats_become_png() -> None:
    assert shown(png(kind="JPEG")).data_uri.startswith("data:image/png;base64,")


def test_durations_read_well() -> None:
    assert [duration(ms) for ms in (None, 0, 999, 1500)] == ["-", "0 ms", "999 ms", "1.5 s"]


def test_levels_are_in_the_catalogs_order_and_not_the_alphabets() -> None:
    store, levels = MemoryImageStore(), ("heavy", "light", "old")
    stored_result = a_generated_result(store, png("green"))
    results = [dataclasses.replace(stored_result, level=level, request_id=level) for level in levels]
    built = build(audit([result.request_id for result in results], results), *open_images(results, store), facts())
    page = render(built, results, store, ["light", "heavy"])
    for number, level in enumerate(("light", "heavy", "old")):
        assert re.search(rf'level-{number}[^>]*id="{level}"', page)
    assert re.findall(r"<dt>by (\w+)</dt>", page) == ["light", "heavy", "old"]
