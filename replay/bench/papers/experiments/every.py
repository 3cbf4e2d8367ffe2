"""All experiments of the papers that simulation can address, in the order of the page."""

from typing import Final

from replay.bench.papers.experiments import argus, diffserve, hadis, mlora, octoai
from replay.bench.papers.experiments.experiment import Experiment

EVERY: Final[tuple[Experiment, ...]] = (
    *diffserve.EXPERIMENTS,
    *hadis.EXPERIMENTS,
    *argus.EXPERIMENTS,
    *octoai.EXPERIMENTS,
    *mlora.EXPERIMENTS,
)
