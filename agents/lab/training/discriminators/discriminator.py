"""Make all discriminators of images of light and heavy, and calibrate them on held-out light ones.

`look` is of this world. The papers' are fitted by `agents/learning/discriminators/`, as anybody's are by `pochade
learn`; all are calibrated and saved by it.
"""

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from agents.lab.training.discriminators import judged, prompt_aware
from agents.lab.training.discriminators.frozen_text import copy_tokenizer, tokenizer_file
from agents.lab.training.discriminators.judged import Judged
from agents.lab.training.loop import device, scaled
from agents.lab.world import renderer, scenes
from agents.learning.calibration import auc, confidence, figures
from agents.learning.discriminators.embedding import fit_embedding
from agents.learning.discriminators.fitting import Fitted, Schedule, real_against_generated
from agents.learning.discriminators.network import fit_network
from agents.models.scorer import Scorer

LIGHT: Final = 10_240  # images to learn from
HEAVY: Final = 2048
DRAFTS: Final = 18_432  # of light, the former among them, that `look` is refined on
EASY_SHARE: Final = 0.25  # of those: images of one or two things are to be judged, too
HELD_OUT: Final = 4608  # light images for confidence, thresholds and figures
RENDERINGS: Final = 8000  # true images
NETWORK: Final = Schedule(epochs=3, batch=96, rate=2e-3)
# prompts and noise of the three sets, the same whatever the training seed, and apart from those of evaluations
_KEPT_SEED, _LIGHT_SEED, _HEAVY_SEED = 7_000_000, 8_000_000, 9_000_000


def train(work: Path, models: Path, seed: int) -> None:
    """Needs <models>/light, heavy and scorer; writes <models>/discriminators/NAME, of four names.

    `look` is the one that the main cascade uses; the others are the papers'.
    """
    kept = judged.by_variant(work, models, "light", _KEPT_SEED, HELD_OUT)
    drafts = judged.by_variant(work, models, "light", _LIGHT_SEED, DRAFTS, EASY_SHARE)
    light = drafts.at(slice(scaled(LIGHT)))
    heavy = judged.by_variant(work, models, "heavy", _HEAVY_SEED, HEAVY, EASY_SHARE)
    look = prompt_aware.refine(work, prompt_aware.train(work, Judged.joined([light, heavy]), seed), drafts, seed)
    finish(work, models, "look", Fitted(look), kept)
    copy_tokenizer(tokenizer_file(work), models / "discriminators" / "look")
    papers(work, models, light, heavy, kept, seed)


def papers(work: Path, models: Path, light: Judged, heavy: Judged, kept: Judged, seed: int) -> None:
    """DiffServe's of images as a whole (3.2; 4.4: heavy's images are the real ones), and HADIS's on an encoder."""
    true = renderings(np.random.default_rng([seed, 1 << 20]), scaled(RENDERINGS))
    of_light, of_heavy = light.captioned().images, heavy.captioned().images
    generated = np.concatenate([of_light, of_heavy])
    network = partial(fit_network, schedule=NETWORK)
    for name, real, fake, fit in (
        ("real", true, generated, network),
        ("real-heavy", of_heavy, of_light, network),
        ("embedding", true, generated, partial(fit_embedding, encoder=Scorer.load(models / "scorer").image)),
    ):
        finish(work, models, name, _fitted(work, name, fit, real, fake, seed), kept)


def renderings(rng: np.random.Generator, count: int) -> np.ndarray:
    """True images of the natural mix, uint8 [n, 48, 48, 3]."""
    return np.stack([renderer.render(scenes.sample(rng), rng) for _ in range(count)])


def _fitted(work: Path, name: str, fit: Callable[..., Fitted], real: np.ndarray, fake: np.ndarray, seed: int) -> Fitted:
    began, shown = time.monotonic(), real_against_generated(list(real), list(fake))
    judge = fit(*shown, seed=seed, progress=lambda share: print(f"{name} {100 * share:.0f}/100", flush=True))
    weights = [each for part in judge.model.parts().values() for each in part.parameters() if each.requires_grad]
    note = {"seed": seed, "parameters": sum(each.numel() for each in weights), "samples": len(shown[0])}
    spent = {"seconds": round(time.monotonic() - began), "device": device().type}
    _note(work / f"discriminator_{name}.json", note | spent)
    return judge


def finish(work: Path, models: Path, name: str, judge: Fitted, kept: Judged) -> None:
    """Calibrate on two thirds of the captions' images and write the folder; the figures are of the last third.

    They go into a note beside that of the training, from which model cards are made.
    """
    captioned = kept.captioned()
    raw, right = _logits(judge, captioned), captioned.right > 0.5
    test = np.arange(len(right)) >= 2 * len(right) // 3
    scale, shift = judge.save(models / "discriminators" / name, name, raw[~test], right[~test])
    found = figures(confidence(raw[test], scale, shift), right[test])
    free_form = kept.at(kept.objects == 0)
    if len(free_form.prompts):
        found["auc_free_form"] = round(auc(_logits(judge, free_form), free_form.right > 0.5), 4)
    _note(work / f"discriminator_{name}_held_out.json", found)


def _logits(judge: Fitted, kept: Judged) -> np.ndarray:
    return judge.logits(list(kept.images), [str(prompt) for prompt in kept.prompts])


def _note(file: Path, facts: dict[str, Any]) -> None:
    file.write_text(json.dumps(facts, indent=2) + "\n")
