"""MLoRA's experiments: components of image models in tiers of memory, at Alibaba (SoCC '25)."""

from typing import Final

from replay.bench.papers.experiments.experiment import Experiment

MLORA = "MLoRA"

EXPERIMENTS: Final = (
    Experiment(paper=MLORA, where="section 3", about="how skewed models and adapters are asked for",
               why_not="a statistic of its own trace: nothing is decided or simulated"),
    Experiment(paper=MLORA, where="Figs. 10-13", about="caches of components, in one comparison in production",
               why_not="`pochade bench genai2026` compares both sides; its figures are not judged here so far"),
)  # fmt: skip
