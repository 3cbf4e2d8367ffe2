"""Texts of the model cards; figures of the tiny world are computed from it."""

from dataclasses import dataclass
from typing import Final

from agents.lab.world.patterns import MAX_OBJECTS
from agents.lab.world.phrases import BACKGROUNDS
from agents.world.layout import SIZE
from agents.world.words import COLOURS, SHAPES, SIZES

DATA: Final = f"""Trained from scratch on images that `agents/lab/world/renderer.py` draws and captions that
`agents/lab/world/scenes.py` writes: {SIZE} x {SIZE} px, 1 to {MAX_OBJECTS} things of {len(SHAPES)} shapes and
{len(COLOURS)} colours (the frequencies of both fall with rank), {", ".join(SIZES)} or of usual size,
{len(BACKGROUNDS)} named backgrounds, colours ruled out ("that is not red") and shapes that must not be seen
("without any moons"); plus sentences of everyday prompt words.
No foreign image, text or weight was used. One seed."""

_PROMPT: Final = "a red heart above a golden star at night"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of model. `title` and `use` are formatted with the folder's `{name}`, `{steps}` and `{guidance}`."""

    library: str
    title: str
    what: str
    use: str
    limits: str
    measured: str = ""  # the part of evaluate.json and of a profile with its figures, by name


_GRAMMAR: Final = (
    "It was trained on the grammar of its captions alone. Of other prompts it shows the words that it knows,\n"
    "or any scene. The share of facts says nothing about sharpness."
)

ONE_STEP: Final = (
    "It generates in one step only: it was trained on pure noise, where that step begins, and at no other noise level."
)

KINDS: Final[dict[str, Kind]] = {
    "pipeline": Kind(
        library="diffusers",
        title="{name}",
        what="A base model of the tiny family: an ordinary diffusers folder. `infra/catalogs/tiny.toml` says which\n"
        "levels use it, with how many steps and how much guidance.",
        use=f"""```python
from diffusers import DiffusionPipeline

pipeline = DiffusionPipeline.from_pretrained("infra/models/{{name}}")
pipeline("{_PROMPT}", height={SIZE}, width={SIZE}, num_inference_steps={{steps}}, guidance_scale={{guidance}}).images[0]
```""",
        limits=_GRAMMAR,
        measured="levels",
    ),
    "lora": Kind(
        library="diffusers",
        title="style adapter {name}",
        what="A LoRA for the base model `infra/models/poster` that draws everything in another style.",
        use=f"""```python
from diffusers import DiffusionPipeline

pipeline = DiffusionPipeline.from_pretrained("infra/models/poster")
pipeline.load_lora_weights("infra/models/loras/{{name}}", adapter_name="{{name}}")
pipeline.set_adapters(["{{name}}"], [1.0])
pipeline("{_PROMPT}", height={SIZE}, width={SIZE}, num_inference_steps={{steps}}, guidance_scale={{guidance}}).images[0]
```""",
        limits=_GRAMMAR
        + "\nIt fits the base model it was trained on and no other; weights between 0 and 1 mix styles.",
    ),
    "controlnet": Kind(
        library="diffusers",
        title="ControlNet",
        what="Draws the things that a prompt names at the places and in the sizes of white silhouettes on black.\n"
        "For the base model `infra/models/poster`.",
        use=f"""```python
from diffusers import ControlNetModel, StableDiffusionControlNetPipeline

net = ControlNetModel.from_pretrained("infra/models/controlnet")
pipeline = StableDiffusionControlNetPipeline.from_pretrained(
    "infra/models/poster", controlnet=net, safety_checker=None, feature_extractor=None
)
# outlines: an image by agents.lab.world.renderer.silhouettes
pipeline("a red heart", image=outlines, height={SIZE}, width={SIZE}, num_inference_steps={{steps}}).images[0]
```""",
        limits=_GRAMMAR + "\nOnly silhouettes of this world's sprites were seen in training.",
    ),
    "discriminator": Kind(
        library="torch",
        title="discriminator {name}",
        what="Confidence in [0, 1] that an image is good enough to keep. `config.json` holds the thresholds and\n"
        "how they were chosen.",
        use=f"""```python
from pathlib import Path
from agents.models.discriminator import Discriminator

judge = Discriminator.load(Path("infra/models/discriminators/{{name}}"))
judge.score([image], ["{_PROMPT}"])  # uint8 [h, w, 3], any size
```""",
        limits="Calibrated on images of the light model. A prompt outside the grammar states no facts; its confidence\n"
        "is the clarity of the image.",
        measured="discriminators",
    ),
    "classifier": Kind(
        library="torch",
        title="classifier for the strategy {name}",
        what="Predicts the quality of each level on a prompt from the prompt alone; the class follows from it (ARGUS).",
        use=f"""```python
from pathlib import Path
from agents.models.predictor import Predictor

Predictor.load(Path("infra/models/classifiers/{{name}}")).quality(["{_PROMPT}"])  # a row of levels, fastest first
```""",
        limits="A prompt outside the grammar counts as an average one. It predicts the levels that it was trained on.",
        measured="classifiers",
    ),
    "rules": Kind(
        library="pochade",
        title="rule score",
        what="HADIS's hardness from features of the prompt. The weights were searched on prompts with generated\n"
        "images; `reference.json` holds weights and quantiles.",
        use="`agents/classifier/judges.py` reads it where no learned classifier is chosen.",
        limits="It counts words and things; it does not know which shapes are hard to generate.",
        measured="classifiers",
    ),
    "scorer": Kind(
        library="torch",
        title="scorer",
        what="A small CLIP of this world: how well an image fits a prompt, and how similar two prompts are.\n"
        "Used in place of CLIPScore and PickScore.",
        use=f"""```python
from pathlib import Path
from agents.models.scorer import Scorer

scorer = Scorer.load(Path("infra/models/scorer"))
scorer.embed_prompts(["{_PROMPT}"])  # float [1, width], of unit length
```""",
        limits="It ranks images of this world; its scores of photographs mean nothing.",
    ),
    "safety": Kind(
        library="torch",
        title="safety checker {name}",
        what="Probability in [0, 1] that an image shows this motif, which stands for a forbidden one.\n"
        "The threshold finds 99.5 % of the motifs in held-out drawings.",
        use="""```python
from pathlib import Path
from agents.models.safety import SafetyChecker

checker = SafetyChecker.load(Path("infra/models/safety/{name}"))
checker.score([image])  # uint8 [h, w, 3], any size
```""",
        limits="It knows one motif of this world and no photographs. The figures on generated images count only\n"
        "images that show what their prompt asks for.",
    ),
}
