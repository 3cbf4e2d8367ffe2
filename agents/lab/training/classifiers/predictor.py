"""Train the quality predictors, one a strategy, and the rules, on the quality of every level on prompts.

Source: ARGUS 4.1 (a classifier for each strategy, taught on generated prompts). We differ: it predicts qualities, from
which the class follows, so that levels can be left out or compared without training again; and it stands on the
family's frozen text encoder instead of BERT.
"""

from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import torch
from diffusers.training_utils import EMAModel
from torch.nn import functional

from agents.lab.family import CATALOG
from agents.lab.training.classifiers import calibration, calibration_set, predictor_folder, rules
from agents.lab.training.classifiers.calibration import Calibration
from agents.lab.training.classifiers.quality_head import Logits, QualityHead, Read, TextSide
from agents.lab.training.discriminators.frozen_text import caption_reader, prompt_encoder, tokenizer_file
from agents.lab.training.loop import Loop, Stateful, descend, device, rate, scaled, set_rate
from agents.lab.world import free_form

STEPS: Final = 600
BATCH: Final = 128
OUTSIDE: Final = 2000  # prompts that state nothing
_AMID_FREE_WORDS: Final = 0.15  # of a batch
_FREE: Final = 0.15
_RATE: Final = 2e-3
_DECAY: Final = 0.1


def train(work: Path, models: Path, seed: int) -> None:
    """Write <models>/classifiers/{models,reuse} and <models>/rules; a strategy of fewer than two levels has none.

    The calibration set lies in <work>/calibration; what is not there of the levels that may be a class is generated.
    """
    calibration_set.complete(work, models, levels=sorted(CATALOG.classes("models")))
    data = calibration.read(work / "calibration")
    whole = [level for level in data.levels if "~" not in level]
    reused = {level.partition("~")[0] for level in data.levels if "~" in level}
    strategies = {"models": whole, "reuse": [level for level in data.levels if level.partition("~")[0] in reused]}
    for strategy, levels in strategies.items():
        if len(levels) > 1:
            learn(work, models / "classifiers" / strategy, strategy, data.of(levels), seed)
    rules.train(work, models, seed, data.of(whole))


def learn(work: Path, folder: Path, strategy: str, data: Calibration, seed: int) -> None:
    """Train the head of one strategy and write its folder, with its figures on the prompts held out."""
    torch.manual_seed(seed)
    where = device()
    text, head = frozen(work).to(where), QualityHead(len(data.levels)).to(where)
    taught, outside = _known(data, ~data.held_out()), np.random.default_rng(seed)
    free = [_free(outside) for _ in range(scaled(OUTSIDE))]
    amid = [
        free_form.mixed(outside, prompt) for prompt in taught.prompts
    ]  # the same facts; a level generates them hardly worse
    read = _read(text, [*taught.prompts, *amid, *free])
    optimizer = torch.optim.AdamW(head.parameters(), lr=_RATE, weight_decay=_DECAY)
    mean = EMAModel(head.parameters(), decay=0.99, foreach=True)
    parts: dict[str, Stateful] = {"head": head, "optimizer": optimizer, "mean": mean}
    loop = Loop(name=f"predictor_{strategy}", folder=work, steps=STEPS, batch=BATCH, parts=parts)

    def step(index: int) -> torch.Tensor:
        torch.manual_seed(seed * 1_000_003 + index)  # dropout too is the same after a resumption
        rng, n = np.random.default_rng([seed, index]), len(taught.prompts)
        rows = rng.integers(0, n, BATCH - round(_FREE * BATCH))
        seen = np.where(rng.random(len(rows)) < _AMID_FREE_WORDS, n + rows, rows)
        others = rng.integers(2 * n, 2 * n + len(free), BATCH - len(rows))
        said = head(Read(*(part[np.concatenate([seen, others])] for part in read)))
        set_rate(optimizer, _RATE, rate(index, STEPS))
        loss = descend(losses(said, *(part[rows].to(where) for part in taught[1:])), optimizer, list(head.parameters()))
        mean.step(head.parameters())
        return loss

    loop.run(step)
    mean.copy_to(head.parameters())
    figures = predictor_folder.write(folder, strategy, text.cpu(), head.cpu(), data, tokenizer_file(work))
    loop.note(seed=seed, prompts=len(taught.prompts), levels=list(data.levels), parameters=loop.size(head), **figures)


def _read(text: TextSide, prompts: list[str]) -> Read:
    """Once for all steps: the text side is frozen."""
    parts = [text(prompts[at : at + 256]) for at in range(0, len(prompts), 256)]
    return Read(*(torch.cat(columns) for columns in zip(*parts, strict=True)))


def _free(rng: np.random.Generator) -> str:
    return free_form.sentence(rng) if rng.random() < 0.6 else free_form.hinted(rng)[0]


class _Taught(NamedTuple):
    prompts: list[str]
    quality: torch.Tensor  # [n, k]; 0 where not known
    facts: torch.Tensor  # [n, k]; 0 where not known
    known: torch.Tensor  # [n, k] 1 where quality is known, else 0
    looked_at: torch.Tensor  # [n, k] 1 where facts are, else 0


def _known(data: Calibration, rows: np.ndarray) -> _Taught:
    prompts = [prompt for prompt, keep in zip(data.prompts, rows, strict=True) if keep]
    columns = data.quality[rows], data.facts[rows]
    parts = (*(np.nan_to_num(column) for column in columns), *(~np.isnan(column) for column in columns))
    return _Taught(prompts, *(torch.from_numpy(part.astype(np.float32)) for part in parts))


def losses(
    said: Logits, quality: torch.Tensor, facts: torch.Tensor, known: torch.Tensor, looked_at: torch.Tensor
) -> torch.Tensor:
    """Cross-entropies of the first prompts' quality and facts [m, k] where known, and of which are those first ones."""
    m = len(quality)
    total = torch.zeros(())
    for logits, target, given in ((said.quality, quality, known), (said.facts, facts, looked_at)):
        each = functional.binary_cross_entropy_with_logits(logits[:m], target, reduction="none")
        total = total + (each * given).sum() / given.sum().clamp(min=1)
    states_facts = (torch.arange(len(said.inside), device=said.inside.device) < m).float()
    return total + 0.3 * functional.binary_cross_entropy_with_logits(said.inside, states_facts)


def frozen(work: Path) -> TextSide:
    """The family's text side."""
    return TextSide(prompt_encoder(work), caption_reader(work)).eval()
