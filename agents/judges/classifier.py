"""Engine `classifier`: the probability of one label by an image classifier of transformers, or of timm inside it.

Source: DiffServe 3.2 (EfficientNet-V2, its softmax of "real"); a folder of timm's is read by transformers' TimmWrapper.
"""

from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image
from transformers import AutoConfig, AutoImageProcessor, AutoModelForImageClassification

from agents.judges.pretrained import device_of
from agents.models.pretrained import place_of
from planner.catalog.judges import Judge
from schemas.errors import Unknown


class ClassifierJudge:
    """A classifier on one device, of which one label counts."""

    def __init__(self, judge: Judge) -> None:
        """Load it. Raises Unknown for a label that it has not."""
        place, device = place_of(judge.model), device_of(judge)
        config = AutoConfig.from_pretrained(**place.words)
        if getattr(config, "model_args", None):  # timm writes the number of classes twice, which its wrapper refuses
            config.model_args = {key: each for key, each in config.model_args.items() if key != "num_classes"}
        network = AutoModelForImageClassification.from_pretrained(**place.files, config=config)
        self._network, self._device = network.eval().to(device), device
        self._processor = AutoImageProcessor.from_pretrained(**place.words)
        names = [str(network.config.id2label[at]) for at in sorted(network.config.id2label)]
        if str(judge.options["label"]) not in names:
            raise Unknown("options.label", str(judge.options["label"]), names)
        self._label = names.index(str(judge.options["label"]))
        many = getattr(network.config, "problem_type", None) == "multi_label_classification"
        self._is_one_of_all = len(names) > 1 and not many

    @torch.inference_mode()
    def score(self, images: Sequence[np.ndarray], prompts: Sequence[str]) -> list[float]:  # noqa: ARG002  by design
        """Return the probability of the label for each image; prompts are not read."""
        if not images:
            return []
        asked = self._processor([Image.fromarray(each) for each in images], return_tensors="pt").to(self._device)
        logits = self._network(**asked).logits.float()
        shares = logits.softmax(-1) if self._is_one_of_all else logits.sigmoid()
        return [float(each) for each in shares[:, self._label]]


load = ClassifierJudge
