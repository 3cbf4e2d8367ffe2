"""Train all discriminators on images of the light and heavy variants, and calibrate them on held-out light ones."""

import json
from pathlib import Path
from typing import Final

from agents.lab.training.discriminators import judged, prompt_aware, realness
from agents.lab.training.discriminators.confidence import Trained, finish
from agents.lab.training.discriminators.frozen_text import copy_tokenizer, tokenizer_file
from agents.lab.training.loop import scaled
from agents.models.scorer import Scorer

LIGHT: Final = 10_240  # images to learn from
HEAVY: Final = 2048
DRAFTS: Final = 18_432  # of light, the former among them, that `look` is refined on
EASY_SHARE: Final = 0.25  # of those: images of one or two things are to be judged, too
HELD_OUT: Final = 4608  # light images for confidence, thresholds and figures
# prompts and noise of the three sets, the same whatever the training seed, and apart from those of evaluations
_KEPT_SEED, _LIGHT_SEED, _HEAVY_SEED = 7_000_000, 8_000_000, 9_000_000


def train(work: Path, models: Path, seed: int) -> None:
    """Needs <models>/light, heavy and scorer; writes <models>/discriminators/NAME, of four names. Resumable.

    `look` is the one that the main cascade uses; the others are the papers'.
    """
    kept = judged.by_variant(work, models, "light", _KEPT_SEED, HELD_OUT)
    drafts = judged.by_variant(work, models, "light", _LIGHT_SEED, DRAFTS, EASY_SHARE)
    light = drafts.at(slice(scaled(LIGHT)))
    heavy = judged.by_variant(work, models, "heavy", _HEAVY_SEED, HEAVY, EASY_SHARE)
    light_images, heavy_images = light.captioned().images, heavy.captioned().images
    both = judged.Judged.joined([light, heavy])
    generated = both.captioned().images

    def keep(name: str, kind: str, examiner: Trained) -> None:
        config = finish(models / "discriminators" / name, name, kind, examiner, kept)
        figures = {**config["held_out"], "threshold": round(config["threshold"], 4)}
        # beside the note of its training: the model cards are made from both
        (work / f"discriminator_{name}_held_out.json").write_text(json.dumps(figures, indent=2) + "\n")

    look = prompt_aware.refine(work, prompt_aware.train(work, both, seed), drafts, seed)
    keep("look", "look", look)
    copy_tokenizer(tokenizer_file(work), models / "discriminators" / "look")
    generated_source, heavy_source = realness.images_from(generated), realness.images_from(heavy_images)
    keep("real", "network", realness.train_real(work, "real", realness.renderings, generated_source, seed))
    light_source = realness.images_from(light_images)
    keep("real-heavy", "network", realness.train_real(work, "real-heavy", heavy_source, light_source, seed))
    scorer = Scorer.load(models / "scorer")
    keep("embedding", "embedding", realness.train_embedding(work, scorer, generated, seed))
