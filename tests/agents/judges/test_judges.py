"""All judges of images keep one contract, whatever opens them, and are refused with what is wrong."""

import pathlib
from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import Any

import numpy as np
import pytest
from PIL import Image

from agents.discriminator.scorers import open_scorer
from agents.features.safety import open_stage
from agents.judges import ConfidentJudge, ImageJudge, JudgeAway, JudgeFailed, open_image_judge
from agents.worker.images import SafeImage
from agents.worker.stages import Opening, Stage, Stages
from planner.catalog.engines import JUDGES
from planner.catalog.judges import Calibration, Floor, Judge
from schemas.errors import PochadeError
from streams.operator.doctor import examine
from streams.operator.verdicts import Verdict
from streams.settings import Settings
from streams.settings import load as load_settings
from tests.agents.judges import service
from tests.agents.lab.training.judging import an_examiner, save_discriminator
from tests.builders import a_discriminator, a_request
from tests.memory_store import MemoryImageStore
from tests.toys import judges as toys

pytestmark = pytest.mark.torch

RANDOM = np.random.default_rng(55)
IMAGES = [RANDOM.integers(0, 255, (40 + 3 * n, 48, 3)).astype(np.uint8) for n in range(8)]
PROMPTS = [f"a {'red ' * n}heart" for n in range(8)]


LEVEL = """
[variants.light]
engine = "profile"
model = ""
scheduler = ""
steps = 1
guidance = 1.0
width = 8
height = 8
latency_ms = {1 = 1.0}
load_ms = 1

"""


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


def test_an_image_below_its_floor_is_not_kept_whatever_its_judge_says(folder: pathlib.Path) -> None:
    """HADIS 3.3: the cosine of image and prompt by a CLIP, beside the discriminator; off unless it is named."""
    clip = Judge(name="clip", engine="clip-score", model=str(folder / "clip"))
    cosines = open_image_judge(clip).score(IMAGES, PROMPTS)
    least = float(np.median(cosines))
    judge = {"engine": "classifier", "model": str(folder / "vit"), "options": {"label": "nsfw"}}
    alone = open_scorer(a_discriminator(**judge))
    floored = open_scorer(a_discriminator(**judge, floor=Floor(clip.model, least)))
    requests = [a_request(prompt=prompt) for prompt in PROMPTS]
    trusted = alone.score(requests, IMAGES)
    wanted = [each if cosine >= least else 0.0 for each, cosine in zip(trusted, cosines, strict=True)]
    assert floored.score(requests, IMAGES) == pytest.approx(wanted)
    assert wanted.count(0.0) == 4


def test_doctor_opens_judges_and_says_what_is_wrong(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    named = {
        "good": ("classifier", folder / "vit", 'options = {label = "nsfw"}'),
        "bad": ("classifier", folder / "vit", 'options = {label = "nsfv"}'),
        "gone": ("clip-score", folder / "nothing", f'floor = {{model = "{folder / "clip"}", least = 0.1}}'),
    }
    tables = [
        f'[discriminators.{name}]\nengine = "{engine}"\nmodel = "{model}"\n{more}\nthreshold = 0.5\nlatency_ms = 1\n'
        for name, (engine, model, more) in named.items()
    ]
    (tmp_path / "mine.toml").write_text(LEVEL + "".join(tables))
    checks = examine(Settings(catalog=str(tmp_path / "mine.toml"), home=tmp_path), loads_models=True)
    found = {each.name: each for each in takewhile(lambda each: each.name != "quality", checks)}
    checks.close()
    verdicts = {name: each.verdict for name, each in found.items() if name.startswith("judge")}
    assert verdicts == {
        "judge good": Verdict.OK, "judge bad": Verdict.FAIL, "judge gone": Verdict.FAIL,
        "judge gone, floor": Verdict.OK,
    }  # fmt: skip
    assert "nsfw" in found["judge bad"].found


def test_any_classifier_is_a_safety_check(folder: pathlib.Path) -> None:
    """The worker asks it before an image is stored; the threshold is the deployment's."""
    safety: dict[str, Any] = {
        "engine": "classifier", "checker": str(folder / "vit"), "options": {"label": "nsfw"}, "threshold": 0.3,
        "action": "flag",
    }  # fmt: skip
    stage = opened_stage(safety)
    (image,) = stage.check([SafeImage(Image.fromarray(IMAGES[0]))], "default")
    judge = Judge(name="x", engine="classifier", model=str(folder / "vit"), options={"label": "nsfw"})
    assert image.score == pytest.approx(open_image_judge(judge).score(IMAGES[:1], [""])[0])
    assert image.safety == "flag"
    with pytest.raises(PochadeError, match=r"safety\.threshold must be above 0"):
        opened_stage({**safety, "threshold": 0})


def opened_stage(safety: dict[str, Any]) -> Stage:
    settings = load_settings({"safety": safety})
    return open_stage(Opening(settings, MemoryImageStore(), lambda _record: None, Stages().check))
