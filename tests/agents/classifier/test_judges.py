"""Who judges prompts: by the catalog, with names and classes."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from agents.classifier import judges
from agents.classifier.judges import JointClassifier, Judgement, LearnedClassifier, RuleClassifier, open_judge
from agents.classifier.predictors import KINDS
from planner.catalog.entries import Classifier
from planner.serving.hardness import FEATURES, RULES, build_reference
from schemas.errors import PochadeError
from tests.agents.lab.training.predictors import a_predictor_folder
from tests.builders import a_catalog

pytestmark = pytest.mark.torch

REFERENCE = build_reference("test/1", "made up", [0.0, 0.1, 0.2, 0.3, 0.4])
ASKED = ("spatial_relations", "num_objects")
QUALITY = {"light": 0.5, "middle": 0.8, "heavy": 0.85}


class Known:
    """A predictor that returns the predictions it was given."""

    levels = tuple(QUALITY)

    def quality(self, prompts: Sequence[str]) -> list[dict[str, float]]:
        return [QUALITY for _ in prompts]


class Fixed:
    def __init__(self, name: str, judgement: Judgement) -> None:
        self.name, self._judgement = name, judgement

    def classify(self, prompt: str) -> Judgement:  # noqa: ARG002  the port's shape
        return self._judgement


def an_entry(**changes: object) -> Classifier:
    values = {"name": "learned", "engine": "learned", "folder": "models", "strategy": "models",
              "levels": ("light", "heavy")}  # fmt: skip
    return Classifier(**(values | changes))  # type: ignore[arg-type]


def test_the_learned_class_is_the_fastest_level_that_is_good_enough() -> None:
    judged = LearnedClassifier(Known(), REFERENCE, an_entry(levels=("light", "middle", "heavy"))).classify("a heart")
    assert judged.classes == {"models": "middle"}
    assert judged.evidence == QUALITY
    assert LearnedClassifier(Known(), REFERENCE, an_entry()).classify("a heart").classes == {"models": "heavy"}


def test_learned_hardness_is_the_rank_of_what_the_fastest_level_lacks() -> None:
    judge = LearnedClassifier(Known(), REFERENCE, an_entry(levels=("heavy",)))
    assert judge.classify("a heart").hardness == pytest.approx(0.875)  # .35 among 0 .. .4, whatever levels are classes
    assert judge.name == "test/1"


def test_a_level_that_was_not_taught_is_refused_at_start() -> None:
    with pytest.raises(PochadeError, match=r"not taught tiny: it knows light, middle, heavy"):
        LearnedClassifier(Known(), REFERENCE, an_entry(levels=("tiny", "heavy")))


def test_the_first_of_several_tells_hardness_and_each_its_own_class() -> None:
    judge = JointClassifier(
        [
            Fixed("rules/1", Judgement(0.2, {}, "counts")),
            Fixed("models/1", Judgement(0.9, {"models": "light"}, "qualities")),
            Fixed("reuse/1", Judgement(0.8, {"reuse": "heavy~k4", "models": "heavy"}, "more")),
        ]
    )
    assert judge.name == "rules/1+models/1+reuse/1"
    assert judge.classify("x") == Judgement(
        0.2, {"models": "light", "reuse": "heavy~k4"}, ["counts", "qualities", "more"]
    )


def test_a_catalog_opens_the_classifiers_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judges, "INFRA", tmp_path)
    a_predictor_folder(tmp_path / "models")
    judge = open_judge(a_catalog(classifiers={"learned": an_entry()}))
    judged = judge.classify("a red heart")
    assert (judge.name, set(judged.classes)) == ("test-predictor/1", {"models"})
    assert 0 <= judged.hardness <= 1
    both = open_judge(a_catalog(classifiers={"learned": an_entry(), "reuse": an_entry(name="reuse", strategy="reuse")}))
    assert both.name == "test-predictor/1+test-predictor/1"


def test_a_folder_that_is_not_there_or_broken_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judges, "INFRA", tmp_path)
    with pytest.raises(PochadeError, match="train it"):
        open_judge(a_catalog(classifiers={"learned": an_entry()}))
    with pytest.raises(PochadeError, match=r"classifier 'rules'.*reference.json"):
        open_judge(a_catalog(classifiers={"rules": Classifier("rules", "rules", "nowhere")}))


def test_a_package_adds_a_kind_of_classifier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Mine(Known):
        @classmethod
        def load(cls, folder: Path) -> "Mine":
            assert folder == tmp_path / "models"
            return cls()

    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "config.json").write_text('{"kind": "mine"}')
    (tmp_path / "models" / "reference.json").write_text(REFERENCE.render())
    monkeypatch.setattr(judges, "INFRA", tmp_path)
    with pytest.raises(PochadeError, match=r"kind of classifier 'mine'.*bert.*words.*pochade\.classifiers"):
        open_judge(a_catalog(classifiers={"learned": an_entry()}))
    monkeypatch.setitem(KINDS, "mine", Mine)
    assert open_judge(a_catalog(classifiers={"learned": an_entry()})).classify("x").evidence == QUALITY


def test_a_catalog_names_hadis_rules_with_the_weights_that_were_searched() -> None:
    searched = open_judge(a_catalog(classifiers={"rules": Classifier("rules", "rules", "models/rules")}))
    by_hand = RuleClassifier.load()
    assert searched.name != by_hand.name
    assert searched.name.startswith("hadis-rules/")
    prompt = "four orange fish below two purple boats"
    assert searched.classify(prompt).hardness != by_hand.classify(prompt).hardness


def test_rules_order_prompts_by_the_weights_of_their_reference() -> None:
    def rules(heaviest: str) -> RuleClassifier:
        weights = dict.fromkeys(FEATURES, 0.0) | {heaviest: 1.0}
        return RuleClassifier.load(build_reference(f"{RULES}-test", "made up", [0.01 * n for n in range(100)], weights))

    near, many = "a cat above a dog", "a cat, a dog, a cow, a hen, a goat"
    by_place, by_count = ([rules(name).classify(text).hardness for text in (near, many)] for name in ASKED)
    assert by_place[0] > by_place[1]
    assert by_count[0] < by_count[1]


def test_the_shipped_classifier_of_reuse_judges_by_its_own_levels() -> None:
    levels = ("heavy~k6", "heavy~k4", "heavy~k2", "heavy")
    entry = an_entry(folder="models/classifiers/reuse", strategy="reuse", levels=levels)
    judge = open_judge(a_catalog(classifiers={"reuse": entry}))
    judged = judge.classify("a red heart")
    assert set(judged.evidence) == {*levels}
    assert judged.classes == {"reuse": "heavy"}  # from step 2 on fewer than .9 as many images are right
    assert judge.classify("two blue stars").classes["reuse"] in levels


def test_without_classifiers_the_shipped_rules_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = Fixed("rules/1", Judgement(0.5, {}, None))
    monkeypatch.setattr(RuleClassifier, "load", lambda *given: shipped if not given else None)
    assert open_judge(a_catalog()) is shipped
