"""The quality predictor: what does not depend on training, and the shipped ones."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from agents.lab.training.classifiers.hardness_reference import reference_prompts
from agents.lab.training.classifiers.quality_head import QualityHead, TextSide
from agents.lab.world import free_form, scenes
from agents.lab.world.stream import STANDARD
from agents.learning.calibration import auc
from agents.models.caption_reader import CaptionReader
from agents.models.predictor import Predictor
from agents.models.prompt_encoder import PromptEncoder
from agents.models.saved import WEIGHTS, Saved
from schemas.errors import PochadeError
from tests.agents.lab.training.predictors import a_predictor_folder
from tests.paths import MODELS, ROOT

pytestmark = pytest.mark.torch

SHIPPED = MODELS / "classifiers" / "models"
needs_shipped = pytest.mark.skipif(not SHIPPED.exists(), reason=f"no trained predictor in {SHIPPED}")
PROMPTS = ["a red heart", "two blue stars above a green fish and a moon", "", "a small boat that is not red"]


@pytest.fixture
def predictor(tmp_path: Path) -> Predictor:
    return Predictor.load(a_predictor_folder(tmp_path / "predictor", inside=8.0))


def test_a_prompt_is_judged_the_same_alone_and_beside_others(predictor: Predictor) -> None:
    together = predictor.predict(PROMPTS)
    for row, prompt in enumerate(PROMPTS):
        alone = predictor.predict([prompt])
        assert np.allclose(alone.quality[0], together.quality[row], atol=1e-5)
        assert np.allclose(alone.inside[0], together.inside[row], atol=1e-5)
    assert together.quality.std(0).min() > 0.01  # and not all alike


def test_it_says_a_probability_for_each_level(predictor: Predictor) -> None:
    said = predictor.predict(PROMPTS)
    assert said.quality.shape == (len(PROMPTS), 2)
    assert ((said.quality >= 0) & (said.quality <= 1)).all()
    (quality, *_) = predictor.quality(PROMPTS)
    assert list(quality) == ["light", "heavy"]
    assert quality["heavy"] == pytest.approx(float(said.quality[0, 1]))


def test_a_prompt_that_states_nothing_is_taken_for_an_average_one(tmp_path: Path) -> None:
    outside = Predictor.load(a_predictor_folder(tmp_path, average=(0.25, 0.75), inside=-30.0))
    said = outside.predict(PROMPTS)
    assert said.inside.max() < 0.01
    assert np.allclose(said.quality, [0.25, 0.75], atol=0.01)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(prompt=st.text(st.characters(), max_size=200))
def test_any_text_at_all_gets_a_prediction(predictor: Predictor, prompt: str) -> None:
    assert np.isfinite(predictor.predict([prompt]).quality).all()


@needs_shipped
@pytest.mark.parametrize("batch", [1, 7, 200])
def test_it_computes_what_the_network_that_was_trained_computes(batch: int) -> None:
    saved, prompts = Saved.load(SHIPPED), [*PROMPTS, "\ud800 broken", "a red heart " * 200]
    prompts += reference_prompts(STANDARD)[: min(5 * batch, 194)]
    network = saved.into("head", QualityHead(len(saved.config["levels"])))
    with torch.inference_mode():
        learned = network(TextSide(PromptEncoder.load(saved), saved.into("reader", CaptionReader()))(prompts))
        inside = torch.sigmoid(learned.inside)
        quality = torch.lerp(torch.tensor(saved.config["average"]), torch.sigmoid(learned.quality), inside[:, None])
    predictor = Predictor.load(SHIPPED)
    computed = [predictor.predict(prompts[at : at + batch]) for at in range(0, len(prompts), batch)]
    assert np.concatenate([each.quality for each in computed]) == pytest.approx(quality.numpy(), abs=1e-4)
    assert np.concatenate([each.inside for each in computed]) == pytest.approx(inside.numpy(), abs=1e-4)


def test_a_folder_that_lacks_a_weight_is_an_error_before_the_first_prompt(tmp_path: Path) -> None:
    weights = load_file((folder := a_predictor_folder(tmp_path)) / WEIGHTS)
    save_file({name: value for name, value in weights.items() if name != "head.out.3.bias"}, folder / WEIGHTS)
    with pytest.raises(PochadeError, match=r"head\.out\.3\.bias"):
        Predictor.load(folder)


@pytest.mark.parametrize("prompt", ["\ud800 broken", "a red heart " * 2000, "\0", "🎨" * 3000])
def test_broken_and_endless_prompts_get_one_too(predictor: Predictor, prompt: str) -> None:
    assert np.isfinite(predictor.predict([prompt]).quality).all()


def test_a_folder_without_weights_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(PochadeError, match="train it"):
        Predictor.load(tmp_path)


def test_it_loads_neither_torch_nor_transformers_nor_spacy(tmp_path: Path) -> None:
    folder = a_predictor_folder(tmp_path / "predictor")
    code = (
        "import sys, pathlib\n"
        "from agents.classifier.judges import LearnedClassifier\n"
        "from planner.catalog.entries import Classifier\n"
        "entry = Classifier('c', 'learned', 'f', 'models', ('light', 'heavy'))\n"
        f"LearnedClassifier.load(pathlib.Path({str(folder)!r}), entry).classify('a red heart')\n"
        "print(sorted({'torch', 'diffusers', 'transformers', 'spacy'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert out.stdout.strip() == "[]"


@needs_shipped
def test_the_shipped_one_tells_captions_from_other_prompts() -> None:
    rng = np.random.default_rng(71)
    captions = [scenes.sample(rng).caption for _ in range(200)]
    others = [free_form.sentence(rng) for _ in range(200)]
    inside = Predictor.load(SHIPPED).predict([*captions, *others]).inside
    assert auc(inside, np.arange(400) < 200) > 0.98
    assert (inside[:200] > 0.5).mean() > 0.95


@needs_shipped
def test_the_shipped_one_finds_more_objects_harder() -> None:
    rng = np.random.default_rng(72)
    predictor = Predictor.load(SHIPPED)
    light = [
        predictor.predict([scenes.sample(rng, objects).caption for _ in range(60)]).quality[:, 0].mean()
        for objects in (1, 3, 6)
    ]
    assert light[0] > light[1] > light[2]
