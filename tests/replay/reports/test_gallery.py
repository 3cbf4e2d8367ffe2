import base64
import dataclasses
import io
import re

from PIL import Image

from replay.load.driver import audit
from replay.local.freezing import Frozen
from replay.reports.demo_report import build, open_images
from replay.reports.gallery import SHOWN_PX, duration, render, shown, words_against
from replay.reports.reuse import Course
from replay.reports.reuse_sources import ReuseSource
from schemas.messages import Result, StageReuse, Status
from tests.builders import NOW_MS, a_plan
from tests.memory_store import MemoryImageStore
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


def test_a_composed_image_names_its_base_and_adapters() -> None:
    store = MemoryImageStore()
    parts = ("base:poster", "adapter:candy@0.8")
    page = page_of(store, dataclasses.replace(a_generated_result(store), components=parts))
    assert all(f'<span class="component">{part}</span>' in page for part in parts)
    assert "component" not in page_of(store, a_generated_result(store)).split("</style>")[1]


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


def reusing_page(store: MemoryImageStore, result: Result, source: ReuseSource | None = None) -> str:
    """The page of one request in a run that could reuse images."""
    plans = (
        a_plan(version=1, strategy="reuse", created_ms=NOW_MS - 1000),
        a_plan(version=2, strategy="models", created_ms=NOW_MS + 4000, reason="lookups get no answer"),
    )
    course = Course(
        plans=plans, frozen=Frozen(NOW_MS + 2000, NOW_MS + 6000), began_ms=NOW_MS, ended_ms=NOW_MS + 10_000.0
    )
    audited = audit([result.request_id], [result])
    report = build(audited, *open_images([result], store), facts(course=course))
    return render(report, [result], store, (), {result.request_id: source} if source else {})


def a_reused_result(store: MemoryImageStore) -> Result:
    begun = StageReuse(step=2, steps=8, similarity=0.9371)
    stage = a_step(level="heavy~k2", reuse=begun, confidence=None, threshold=None, image=stored(store, png("blue")))
    return a_result(stage, request_id="later", prompt="two blue hearts")


def a_source(store: MemoryImageStore, prompt: str = "two red hearts", among: int = 1) -> ReuseSource:
    uri = stored(store, png("red")).uri
    return ReuseSource(request_id="earlier", prompt=prompt, image_uri=uri, among=among)


def text_of(page: str) -> str:
    return re.sub(r"\s+", " ", page)


def test_a_reused_image_stands_beside_the_one_it_began_from_with_step_and_similarity() -> None:
    store = MemoryImageStore()
    page = reusing_page(store, a_reused_result(store), a_source(store))
    assert inline(page) == [png("red"), png("blue")]
    assert "cosine 0.937<br>step 2 of 8" in page
    assert "2 of 8 steps skipped, with the image of “two red hearts” (earlier)." in text_of(page)
    assert "two <mark>blue</mark> hearts" in page, "the word that was changed is marked"
    assert 'href="#earlier"' not in page, "what has no place on the page is no link"


def test_an_exact_repeat_says_so_and_how_many_images_it_may_be_of() -> None:
    store = MemoryImageStore()
    page = reusing_page(store, a_reused_result(store), a_source(store, "two blue hearts", among=3))
    assert "with the image of the same words (earlier, or one of 2 like it)" in text_of(page)
    assert "<mark>" not in page


def test_a_source_that_nobody_found_is_not_made_up() -> None:
    store = MemoryImageStore()
    page = reusing_page(store, a_reused_result(store))
    assert inline(page) == [png("blue")]
    assert "2 of 8 steps skipped, with an earlier image of the same tenant" in page


def test_an_image_that_reused_nothing_says_why_and_its_group_can_be_chosen() -> None:
    store = MemoryImageStore()
    missed = a_result(a_step(reuse=StageReuse(steps=8, miss="timeout"), image=stored(store, png())))
    page = reusing_page(store, missed)
    assert "All 8 steps from noise: the stores did not answer in time" in page
    assert 'id="show-missed"' in page
    planned = a_result(a_step(reuse=StageReuse(steps=8, miss="route"), image=stored(store, png())))
    page = reusing_page(store, planned)
    assert 'id="show-planned"' in page
    assert "All 8 steps from noise, as planned." in page


def test_the_course_of_a_run_shows_strategies_and_the_freeze_in_their_places() -> None:
    store = MemoryImageStore()
    page = reusing_page(store, a_reused_result(store), a_source(store))
    assert '<i class="reuse" style="left: 0.00%; width: 40.00%">' in page
    assert '<i class="models" style="left: 40.00%; width: 60.00%">' in page
    assert '<i class="frozen" style="left: 20.00%; width: 40.00%">' in page
    assert "plan 2 switches the strategy from reuse to models: lookups get no answer" in page
    assert "1 of 1 prompts became images: 1 began from an earlier one, which saved 25 in 100 steps of all." in page


def test_a_run_that_could_reuse_nothing_has_no_course() -> None:
    store = MemoryImageStore()
    page = page_of(store, a_generated_result(store))
    assert 'class="course"' not in page
    assert "generated again" in page


def test_only_words_that_the_other_prompt_lacks_are_new() -> None:
    words = words_against("a tiny red heart at night", "a red star at night")
    assert [word.text for word in words if word.is_new] == ["tiny", "heart"]
    assert " ".join(word.text for word in words) == "a tiny red heart at night"


def test_where_nothing_could_be_reused_cards_say_what_was_kept_though_the_plan_asked_for_lookups() -> None:
    store = MemoryImageStore()
    page = page_of(store, a_result(a_step(reuse=StageReuse(steps=8, miss="route"), image=stored(store, png()))))
    assert 'id="show-kept"' in page
    assert 'id="show-planned"' not in page
    assert "steps from noise" not in page
