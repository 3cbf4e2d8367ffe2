"""Images that must not be shown never leave the worker as they were generated, whatever their tenant wants instead."""

import io
import pathlib
from collections.abc import Sequence

import numpy as np
import pytest
from PIL import Image
from prometheus_client import REGISTRY

from agents.features.previews import PreviewWriter
from agents.features.safety import SafetyStage, blurred, folder_of, open_stage, terms_of
from agents.lab.training.discriminators.safety import renderings
from agents.models.safety import SafetyChecker
from agents.worker.stages import Opening, Stage, Stages
from planner.serving.safety import Action, SafetyTerms
from schemas.errors import PochadeError
from schemas.messages import GenerateJob, GenerateOptions, ImageGenerated, Outcome, Status
from schemas.record import Outgoing
from schemas.topics import IMAGES, OUTCOMES
from streams.settings import InvalidSettings, load
from streams.shipped import MODELS
from tests.agents.stubs import read
from tests.agents.worker.driving import answers
from tests.agents.worker.test_generate import JOBS, Studio, taken
from tests.builders import a_job
from tests.memory_store import MemoryImageStore

pytestmark = pytest.mark.torch

CHECKER = MODELS / "safety" / "mushroom"


class ByRed:
    """A checker to which an image is as unsafe as its first pixel is red; and that can fail."""

    def __init__(self) -> None:
        self.is_broken = False

    def score(self, images: Sequence[np.ndarray]) -> list[float]:
        if self.is_broken:
            raise RuntimeError("out of memory")
        return [float(each[0, 0, 0]) / 255 for each in images]


def studio(action: Action, checker: ByRed | None = None) -> Studio:
    terms = SafetyTerms(0.5, Action.BLOCK, {"default": action})
    return Studio(stage=SafetyStage(checker or ByRed(), terms))


def stored(studio: Studio, uri: str) -> np.ndarray:
    with Image.open(io.BytesIO(studio.store.get(uri))) as image:
        return np.asarray(image.convert("RGB"))


def opened(safety: dict[str, str]) -> Stage:
    return open_stage(Opening(load({"safety": safety}), MemoryImageStore(), lambda _record: None, Stages().check))


def counted(action: str) -> float:
    return REGISTRY.get_sample_value("pochade_safety_checks_total", {"action": action}) or 0.0


def test_an_image_that_passes_is_stored_with_its_score() -> None:
    before, works = counted("pass"), studio(Action.BLOCK)
    (written,) = answers(works.driver, [taken(seed=51)])
    image = read(written, ImageGenerated).image
    assert (image.unsafe, image.safety) == (pytest.approx(0.2), "")
    assert tuple(stored(works, image.uri)[0, 0]) == (51, 0, 0)
    assert counted("pass") == before + 1


def test_a_blocked_image_ends_its_request_rejected_with_the_score_and_nothing_is_stored() -> None:
    works = studio(Action.BLOCK)
    passed, blocked = answers(works.driver, [taken("a", seed=204), taken("b", seed=51)])
    outcome = read(blocked, Outcome)
    assert (blocked.topic, blocked.key, outcome.status, outcome.code) == (OUTCOMES, b"a", Status.REJECTED, "unsafe")
    assert outcome.reason == "the safety check blocked its image: score 0.80, and 0.5 is the limit"
    assert (passed.topic, passed.key) == (IMAGES, b"b")
    assert len(works.store._objects) == 1


def test_of_several_images_one_that_is_blocked_takes_the_others_with_it() -> None:
    works = studio(Action.BLOCK)
    (written,) = answers(works.driver, [taken(seed=127, options=GenerateOptions(n=2))])
    assert read(written, Outcome).reason.startswith("the safety check blocked 1 of its 2 images")
    assert not works.store._objects


def test_a_flagged_image_is_stored_as_it_is_and_told() -> None:
    works = studio(Action.FLAG)
    (written,) = answers(works.driver, [taken(seed=204)])
    image = read(written, ImageGenerated).image
    assert (image.unsafe, image.safety) == (pytest.approx(0.8), "flag")
    assert tuple(stored(works, image.uri)[0, 0]) == (204, 0, 0)


def test_a_blurred_image_is_told_to_be_so_and_its_latent_is_not_stored() -> None:
    works = studio(Action.BLUR)
    (written,) = answers(works.driver, [taken(seed=127, options=GenerateOptions(n=2))])
    said = read(written, ImageGenerated)
    assert [each.safety for each in (said.image, *said.more)] == ["", "blur"]
    safe, unsafe = Stages([SafetyStage(ByRed(), SafetyTerms(0.5, Action.BLUR))]).check(
        [Image.new("RGB", (48, 48), (red, 0, 0)) for red in (0, 255)], "anybody"
    )
    assert (safe.is_as_generated, unsafe.is_as_generated) == (True, False)


def test_what_could_not_be_checked_is_tried_again_and_not_stored() -> None:
    works = studio(Action.FLAG, checker := ByRed())
    checker.is_broken = True
    (written,) = answers(works.driver, [taken(seed=0)])
    assert (written.topic, read(written, GenerateJob).attempt) == (JOBS, 2)
    assert not works.store._objects


@pytest.mark.parametrize(("action", "shown"), [(Action.BLOCK, None), (Action.BLUR, 200), (Action.FLAG, 200)])
def test_a_preview_is_checked_before_it_is_stored(action: Action, shown: int | None) -> None:
    store, told = MemoryImageStore(), list[Outgoing]()
    writer = PreviewWriter(store, told.append, Stages([SafetyStage(ByRed(), SafetyTerms(0.5, action))]).check)
    image = Image.new("RGB", (8, 8), (0, 0, 0))
    image.paste((200, 0, 0), (0, 0, 1, 1))
    writer.show(a_job(), 1, 2, image)
    writer._pool.shutdown(wait=True)
    assert len(told) == len(store._objects) == (0 if shown is None else 1)
    for data, _ in store._objects.values():
        with Image.open(io.BytesIO(data)) as stored_image:
            red = stored_image.convert("RGB").getpixel((0, 0))[0]  # type: ignore[index]
        assert (red == shown) == (action is Action.FLAG)


def test_the_shipped_checker_finds_its_motif_and_not_once_it_is_blurred() -> None:
    checker = SafetyChecker.load(CHECKER)
    images, shows = renderings(np.random.default_rng(5), 200)
    scores = np.array(checker.score(list(images)))
    assert np.mean(scores[shows] >= checker.threshold) > 0.9
    assert np.mean(scores[~shows] >= checker.threshold) < 0.2
    few = [np.asarray(blurred(Image.fromarray(each))) for each in images[shows]]
    assert {each.shape for each in few} == {(48, 48, 3)}
    assert np.mean(np.array(checker.score(few)) >= checker.threshold) < 0.2
    assert checker.score([]) == []
    assert len(checker.score([np.zeros((64, 96, 3), np.uint8)])) == 1


def test_the_settings_name_a_checker_its_limit_and_what_tenants_want() -> None:
    assert type(opened({})) is Stage
    settings = load({"safety": {"checker": "mushroom", "action": "flag", "tenants": {"school": "block"}}})
    assert isinstance(opened({"checker": "mushroom"}), SafetyStage)
    terms = terms_of(settings.safety, 0.4)
    assert terms == SafetyTerms(0.4, Action.FLAG, {"school": Action.BLOCK})
    assert terms_of(load({"safety": {"threshold": 0.7}}).safety, 0.4).threshold == 0.7
    assert (folder_of("mushroom"), folder_of("/other")) == (CHECKER, pathlib.Path("/other"))
    with pytest.raises(PochadeError, match="holds no config"):
        opened({"checker": "no-such"})
    with pytest.raises(InvalidSettings, match="tenants"):
        load({"safety": {"tenants": {"school": "hide"}}})
