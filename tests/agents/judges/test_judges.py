"""All judges of images keep one contract, whatever opens them, and are refused with what is wrong."""

import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from agents.judges import ConfidentJudge, ImageJudge, JudgeAway, JudgeFailed, open_image_judge
from planner.catalog.engines import JUDGES
from planner.catalog.judges import Calibration, Judge
from tests.agents.judges import service
from tests.agents.lab.training.judging import an_examiner, save_discriminator
from tests.toys import judges as toys

pytestmark = pytest.mark.torch

RANDOM = np.random.default_rng(55)
IMAGES = [RANDOM.integers(0, 255, (40 + 3 * n, 48, 3)).astype(np.uint8) for n in range(8)]
PROMPTS = [f"a {'red ' * n}heart" for n in range(8)]


class Brightness:
    """A judge of a package of others."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge

    def score(self, images: list[np.ndarray], prompts: list[str]) -> list[float]:
        return [float(each.mean()) / 255 + 0.001 * len(prompt) for each, prompt in zip(images, prompts, strict=True)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("judges")
    toys.write_clip(folder / "clip")
    toys.write_vit(folder / "vit")
    toys.write_efficientnet(folder / "efficientnet")
    toys.write_image_reward(folder / "image-reward")
    save_discriminator(folder / "look", "look", an_examiner("look"))
    return folder


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with service.running() as url:
        yield url


@pytest.fixture(scope="module")
def judges(folder: pathlib.Path, url: str) -> Iterator[dict[str, Judge]]:
    JUDGES["brightness"] = Brightness
    entries = {
        "clip-score": {"engine": "clip-score", "model": str(folder / "clip")},
        "pickscore": {"engine": "reward", "model": str(folder / "clip"), "options": {"kind": "pickscore"}},
        "imagereward": {"engine": "reward", "model": str(folder / "image-reward"), "options": {"kind": "imagereward"}},
        "vit": {"engine": "classifier", "model": str(folder / "vit"), "options": {"label": "nsfw"}},
        "efficientnet": {"engine": "classifier", "model": str(folder / "efficientnet"), "options": {"label": "real"}},
        "http": {"engine": "http", "options": {"url": url}},
        "installed": {"engine": "brightness"},
        "learned": {"engine": "learned", "folder": str(folder / "look")},
    }
    yield {name: Judge(name=name, **entry) for name, entry in entries.items()}  # type: ignore[arg-type]
    del JUDGES["brightness"]


@pytest.fixture(scope="module")
def opened(judges: dict[str, Judge]) -> Callable[[str], ImageJudge]:
    known: dict[str, ImageJudge] = {}

    def of(name: str) -> ImageJudge:
        return known.setdefault(name, open_image_judge(judges[name])) if name not in known else known[name]

    return of


EACH = pytest.mark.parametrize(
    "name", ["clip-score", "pickscore", "imagereward", "vit", "efficientnet", "http", "installed", "learned"]
)


@EACH
def test_eight_at_once_score_as_one_by_one(opened: Callable[[str], ImageJudge], name: str) -> None:
    judge = opened(name)
    one_by_one = [judge.score([image], [prompt])[0] for image, prompt in zip(IMAGES, PROMPTS, strict=True)]
    assert judge.score(IMAGES, PROMPTS) == pytest.approx(one_by_one, rel=1e-4, abs=1e-5)
    assert len(set(np.round(one_by_one, 6))) == 8, "images differ, and scores with them"


@EACH
def test_no_images_have_no_scores(opened: Callable[[str], ImageJudge], name: str) -> None:
    assert opened(name).score([], []) == []


@pytest.mark.parametrize("name", ["clip-score", "pickscore", "imagereward"])
def test_who_reads_the_prompt_scores_another_one_otherwise(opened: Callable[[str], ImageJudge], name: str) -> None:
    this, other = opened(name).score([IMAGES[0]] * 2, ["a red heart", "two yellow stars"])
    assert abs(this - other) > 1e-4


@EACH
def test_a_discriminator_gives_confidences_of_any_of_them(judges: dict[str, Judge], name: str) -> None:
    confidences = ConfidentJudge(judges[name]).confidences(IMAGES, PROMPTS)
    assert all(0 <= each <= 1 for each in confidences)


def test_a_calibration_turns_scores_into_confidences_in_their_order(judges: dict[str, Judge]) -> None:
    clip = judges["clip-score"]
    scores = open_image_judge(clip).score(IMAGES, PROMPTS)
    steep = Judge(name="x", engine="clip-score", model=clip.model, calibration=Calibration(50.0, 1.0))
    wanted = [1 / (1 + np.exp(-(50 * each + 1))) for each in scores]
    assert ConfidentJudge(steep).confidences(IMAGES, PROMPTS) == pytest.approx(wanted, abs=1e-4)


def test_pickscore_scores_are_the_cosine_times_the_learned_temperature(opened: Callable[[str], ImageJudge]) -> None:
    ratios = np.array(opened("pickscore").score(IMAGES, PROMPTS)) / opened("clip-score").score(IMAGES, PROMPTS)
    assert ratios == pytest.approx(np.full(8, np.exp(2.6592)), rel=1e-3)


def test_a_service_gets_the_images_as_they_are(url: str) -> None:
    judge = open_image_judge(Judge(name="x", engine="http", options={"url": url}))
    judge.score(IMAGES[:2], PROMPTS[:2])
    assert [np.array_equal(seen, sent) for seen, sent in zip(service.SEEN[-2:], IMAGES[:2], strict=True)] == [True] * 2


def test_a_service_that_is_away_is_another_error_than_one_that_answers_nonsense(url: str) -> None:
    def asked(path: str, **options: Any) -> None:
        judge = Judge(name="x", engine="http", options={"url": path, **options})
        open_image_judge(judge).score(IMAGES[:1], PROMPTS[:1])

    with pytest.raises(JudgeAway, match=r"does not answer at http://127\.0\.0\.1:9/"):
        asked("http://127.0.0.1:9/")
    with pytest.raises(JudgeAway, match="answers 503"):
        asked(f"{url}busy")
    with pytest.raises(JudgeAway, match="Timeout"):
        asked(f"{url}slow", timeout_s=0.05)
    with pytest.raises(JudgeFailed, match="must answer 200 with 1 numbers as `scores`: got 200"):
        asked(f"{url}nonsense")
    with pytest.raises(JudgeFailed, match="got 404"):
        asked(f"{url}missing")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"engine": "clip-score", "model": "models/nothing"}, "model folder 'models/nothing' does not exist"),
        ({"engine": "clip-score", "model": "VIT"}, "is a ViTModel, and no CLIP"),
        ({"engine": "classifier", "model": "VIT", "options": {"label": "nsfv"}}, "nsfv.*nsfw"),
        ({"engine": "reward", "model": "VIT", "options": {"kind": "imagereward"}}, "no weights of an ImageReward"),
        ({"engine": "learned", "folder": "models/nothing"}, "train it or fix the catalog"),
        ({"engine": "profile"}, "judges no image"),
        ({"engine": "clip-score", "model": "VIT", "device": "cuda:7"}, "device 'cuda:7' is not there"),
    ],
)
def test_what_cannot_be_opened_says_why(folder: pathlib.Path, wrong: dict[str, Any], says: str) -> None:
    where = {key: str(folder / "vit") if each == "VIT" else each for key, each in wrong.items()}
    with pytest.raises(JudgeFailed, match=says):
        open_image_judge(Judge(name="x", **where))
