"""Images between denoising steps, decoded from what a pipeline has so far: noisy still, and only shown.

The image that comes in the end is the same with and without them. Each costs a decoding.
"""

import logging
from collections.abc import Mapping
from typing import Any

import torch

from agents.engines import Previews, preview_steps
from streams import metrics

log = logging.getLogger(__name__)


class StepPreviews:
    """Shows the images of one call as far as they are."""

    def __init__(self, previews: Previews, tasks: int) -> None:
        """`tasks`: of the call."""
        self._previews = previews
        self._tasks = tasks
        self._is_over = False  # as this pipeline's latents cannot be decoded
        self._steps: Mapping[int, frozenset[int]] = {}
        self._total = 0

    def after_step(self, pipeline: Any, step: int, latents: torch.Tensor | None) -> None:
        """Show what is wanted after a step, from 0 on. A pipeline that packs its latents shows nothing: counted."""
        if self._is_over:
            return
        if not self._total:
            self._total = int(getattr(pipeline, "num_timesteps", len(pipeline.scheduler.timesteps)))
            self._steps = {task: preview_steps(n, self._total) for task, n in self._previews.wanted.items()}
        for task in [task for task, steps in self._steps.items() if step + 1 in steps]:
            try:
                self._previews.show(task, step + 1, self._total, self._decoded(pipeline, latents, task))
            except Exception as error:  # whatever a model and its libraries raise: the image does without
                log.warning("a preview could not be decoded, and no more of this call are shown: %r", error)
                metrics.PREVIEWS.labels("undecoded").inc()
                self._is_over = True
                return

    def _decoded(self, pipeline: Any, latents: torch.Tensor | None, task: int) -> Any:
        config = pipeline.vae.config
        if latents is None or latents.shape[:2] != (self._tasks, config.latent_channels):
            raise ValueError(f"{type(pipeline).__name__} has no latents of one image each")
        one = latents[task : task + 1].to(pipeline.vae.dtype) / config.scaling_factor
        one = one + (getattr(config, "shift_factor", None) or 0.0)
        decoded = pipeline.vae.decode(one, return_dict=False)[0]
        if not torch.isfinite(decoded).all():
            raise ValueError(f"{type(pipeline.vae).__name__} overflows in {pipeline.vae.dtype}")
        return pipeline.image_processor.postprocess(decoded, output_type="pil")[0]
