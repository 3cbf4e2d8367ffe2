"""The rankers of images and prompts: the discriminators, classifiers and scorer that are found, and which are missing.

Looked for: the catalog's discriminators; MODELS/discriminators/NAME; MODELS/classifiers/NAME;
MODELS/scorer; and HADIS's rules, as searched for this family (MODELS/rules) or as they come.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from agents.classifier.judges import REFERENCE, Judgement, PromptJudge, RuleClassifier, open_judge, read_reference
from agents.classifier.predictors import QualityPredictor, open_predictor
from agents.judges import ConfidentJudge
from planner.catalog.judges import LEARNED, PRETRAINED, PROFILE, Judge
from planner.catalog.model import Catalog
from schemas.errors import PochadeError
from schemas.ids import draw
from streams.shipped import INFRA

if TYPE_CHECKING:  # torch: only where something learned is found
    from agents.models.scorer import Scorer

_TIMED = 64  # prompts, one by one
JUDGED = (1, 2, 4, 8)  # images in a batch that judges are timed with
_CALLS = 12  # of each
RULES = "rules"
RANDOM_SCORES = "drawn"  # a discriminator that ignores the image; used where none is found, so that there is a report

Scores = Callable[[Sequence[np.ndarray], Sequence[str]], Sequence[float]]
_BROKEN = (PochadeError, OSError, ValueError, KeyError, RuntimeError, TypeError)  # what loading an old model may raise


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rankers:
    """The classifiers, discriminators and scorer that were found, by name."""

    discriminators: dict[str, Scores]
    predictors: dict[str, QualityPredictor]
    rules: RuleClassifier
    judge: PromptJudge  # the catalog's own, which estimates hardness when serving
    scorer: "Scorer | None"
    missing: list[str] = field(default_factory=list)  # each with why

    def absent(self) -> list[str]:
        """The kinds of which nothing was found."""
        found = {
            "a learned classifier": self.predictors, "a discriminator": self.discriminators, "the scorer": self.scorer
        }  # fmt: skip
        return [f"{kind}: there is none" for kind, one in found.items() if not one]

    def judged(self, prompts: Sequence[str]) -> list[Judgement]:
        """Hardness and class of each prompt, as the product has them."""
        return [self.judge.classify(prompt) for prompt in prompts]

    def hardness(self, prompts: Sequence[str]) -> np.ndarray:
        """[n] in 0..1, as the product has it."""
        return np.array([each.hardness for each in self.judged(prompts)])

    def confidences(self, name: str, images: Sequence[np.ndarray], prompts: Sequence[str]) -> np.ndarray | None:
        """[n] by one discriminator; None, with a line in `missing`, where it cannot read such images."""
        try:
            return np.array(self.discriminators[name](images, prompts), float)
        except _BROKEN as error:
            self.missing.append(f"discriminator {name}: {_first_line(error)}")
            return None


def find(catalog: Catalog, models: Path) -> Rankers:
    """Everything that can be opened; what cannot is in `missing`."""
    missing: list[str] = []
    discriminators: dict[str, Scores] = {}
    for judge in _discriminators(catalog, models):
        try:
            drawn = judge.engine == PROFILE
            discriminators[judge.name] = random_scores if drawn else ConfidentJudge(judge).confidences
        except _BROKEN as error:
            missing.append(f"discriminator {judge.name}: {_first_line(error)}")
    predictors = {}
    for folder in _folders(models / "classifiers"):
        try:
            predictors[folder.name] = open_predictor(folder)
        except _BROKEN as error:
            missing.append(f"classifier {folder.name}: {_first_line(error)}")
    rules = _rules(models)
    return Rankers(
        discriminators=discriminators, predictors=predictors, rules=rules, judge=_judge(catalog, rules, missing),
        scorer=_scorer(models, missing), missing=missing,
    )  # fmt: skip


def per_prompt_ms(call: Callable[[str], object], prompts: Sequence[str]) -> float:
    """Median CPU time of one call for one prompt, in ms, on one core."""
    from agents.models.threads import one_thread

    times = []
    with one_thread():
        for prompt in prompts[:_TIMED]:
            begun = time.process_time()
            call(prompt)
            times.append((time.process_time() - begun) * 1e3)
    return float(np.median(times[len(times) // 4 :]))  # the first warm up


def judging_ms(
    judge: Scores, images: Sequence[np.ndarray], prompts: Sequence[str], *, by_cpu: bool
) -> dict[int, float]:
    """Images in a batch -> median ms of judging it. `by_cpu`: by one thread's time of a CPU, else by the clock."""
    from agents.models.threads import one_thread

    clock, found = time.process_time if by_cpu else time.perf_counter, {}
    with one_thread() if by_cpu else contextlib.nullcontext():
        for size in JUDGED:
            texts, times = [prompts[n % len(prompts)] for n in range(size)], []
            for _ in range(_CALLS):
                begun = clock()
                judge(images[:size], texts)
                times.append((clock() - begun) * 1e3)
            found[size] = float(np.median(times[len(times) // 4 :]))  # the first warm up
    return found


def runs_on_cpu(judge: Judge) -> bool:
    """Whether a judge computes on the CPU of this process, so that its time there is what it costs."""
    import torch

    return judge.engine in (LEARNED, *PRETRAINED) and (judge.device == "cpu" or not torch.cuda.is_available())


def _discriminators(catalog: Catalog, models: Path) -> Iterator[Judge]:
    """Those of the catalog, and folders of MODELS that it does not name."""
    known = {(INFRA / each.folder).resolve() for each in catalog.discriminators.values() if each.folder}
    yield from catalog.discriminators.values()
    taken = set(catalog.discriminators)
    for folder in _folders(models / "discriminators"):
        if (folder / "config.json").exists() and folder.resolve() not in known:
            name = folder.name if folder.name not in taken else f"{folder.name} of {models.name}"
            yield Judge(name=name, engine=LEARNED, folder=str(folder.resolve()))


def _folders(parent: Path) -> list[Path]:
    return sorted(folder for folder in parent.iterdir() if folder.is_dir()) if parent.is_dir() else []


def _rules(models: Path) -> RuleClassifier:
    file = models / "rules" / REFERENCE
    return RuleClassifier.load(read_reference(file) if file.exists() else None)


def _judge(catalog: Catalog, rules: RuleClassifier, missing: list[str]) -> PromptJudge:
    if not catalog.classifiers:
        return rules
    try:
        return open_judge(catalog)
    except _BROKEN as error:
        missing.append(f"the catalog's classifiers: {_first_line(error)}; the rules estimate hardness")
        return rules


def _scorer(models: Path, missing: list[str]) -> "Scorer | None":
    if not (models / "scorer").is_dir():
        return None
    from agents.models.scorer import Scorer

    try:
        return Scorer.load(models / "scorer")
    except _BROKEN as error:
        missing.append(f"the scorer: {_first_line(error)}")
        return None


def random_scores(images: Sequence[np.ndarray], prompts: Sequence[str]) -> list[float]:
    """Uniform scores in 0..1 from a hash of the prompt and the image: a baseline that knows nothing of quality."""
    return [draw(f"{prompt}/{image.sum()}", "confidence") for image, prompt in zip(images, prompts, strict=True)]


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]
