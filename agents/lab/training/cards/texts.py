"""What model cards say in words. Numbers of the world come from the world."""

from dataclasses import dataclass
from typing import Final

from agents.world.layout import MAX_OBJECTS, SIZE
from agents.world.words import BACKGROUNDS, COLOURS, SHAPES, SIZES

DATA: Final = f"""Trained from scratch on pictures that `agents/lab/world/renderer.py` draws and captions that
`agents/lab/world/scenes.py` writes: {SIZE} x {SIZE} px, 1 to {MAX_OBJECTS} things of {len(SHAPES)} shapes and
{len(COLOURS)} colours (the frequencies of both fall with rank), {", ".join(SIZES)} or of usual size,
{len(BACKGROUNDS)} named backgrounds, colours ruled out ("that is not red") and shapes that must not be seen
("without any moons"); plus sentences of everyday prompt words.
No picture, text or weight of anybody else was used. One run with one seed."""

_PROMPT: Final = "a red heart above a golden star at night"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of model; `{name}`, `{steps}` and `{guidance}` in `title` and `use` are the folder's."""

    library: str
    title: str
    what: str
    use: str
    limits: str
    measured: str = ""  # the part of evaluate.json and of a profile with its figures, by name


_GRAMMAR: Final = (
    "It knows its grammar. Other prompts give whatever of their words it knows, or a scene of its own.\n"
    "Facts do not measure sharpness."
)

ONE_STEP: Final = (
    "It paints in one step only: it was trained at pure noise, where that step begins, and at no other time."
)

KINDS: Final[dict[str, Kind]] = {
    "pipeline": Kind(
        library="diffusers",
        title="{name}",
        what="A base model of the tiny family: an ordinary diffusers folder. `infra/catalogs/tiny.toml` says which\n"
        "levels paint with it, in how many steps and with how much guidance.",
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
        what="Paints the things a prompt names where, and as large as, white silhouettes on black say;\n"
        "for the base model `infra/models/poster`.",
        use=f"""```python
from diffusers import ControlNetModel, StableDiffusionControlNetPipeline

net = ControlNetModel.from_pretrained("infra/models/controlnet")
pipeline = StableDiffusionControlNetPipeline.from_pretrained(
    "infra/models/poster", controlnet=net, safety_checker=None, feature_extractor=None
)
# outlines: a picture as agents.lab.world.renderer.silhouettes draws it
pipeline("a red heart", image=outlines, height={SIZE}, width={SIZE}, num_inference_steps={{steps}}).images[0]
```""",
        limits=_GRAMMAR + "\nOnly silhouettes of this world's sprites were seen in training.",
    ),
    "discriminator": Kind(
        library="torch",
        title="discriminator {name}",
        what="Confidence in [0, 1] that a picture is good enough to keep. The thresholds and how they were chosen are\n"
        "in config.json.",
        use=f"""```python
from pathlib import Path
from agents.models.discriminator import Discriminator

judge = Discriminator.load(Path("infra/models/discriminators/{{name}}"))
judge.score([picture], ["{_PROMPT}"])  # uint8 [h, w, 3], any size
```""",
        limits="Calibrated on pictures of the light model. A prompt outside the grammar states no facts: there the\n"
        "confidence says how clear the picture is.",
        measured="discriminators",
    ),
    "classifier": Kind(
        library="torch",
        title="classifier for the strategy {name}",
        what="How well each level will do on a prompt, from the prompt alone; the class follows from it (ARGUS).",
        use=f"""```python
from pathlib import Path
from agents.models.predictor import Predictor

Predictor.load(Path("infra/models/classifiers/{{name}}")).quality(["{_PROMPT}"])  # a row of levels, fastest first
```""",
        limits="A prompt outside the grammar is taken for an average one. It knows the levels it was trained on.",
        measured="classifiers",
    ),
    "rules": Kind(
        library="pochade",
        title="rule score",
        what="HADIS's hardness from features of the prompt, with weights searched on painted prompts: reference.json\n"
        "holds the weights and the quantiles.",
        use="`agents/classifier/judges.py` reads it where no learned classifier is chosen.",
        limits="It counts words and things; it does not know which shapes are hard to paint.",
        measured="classifiers",
    ),
    "scorer": Kind(
        library="torch",
        title="scorer",
        what="A small CLIP of this world: how well a picture fits a prompt, and which prompts are alike.\n"
        "Stands in for CLIPScore and PickScore.",
        use=f"""```python
from pathlib import Path
from agents.models.scorer import Scorer

scorer = Scorer.load(Path("infra/models/scorer"))
scorer.embed_prompts(["{_PROMPT}"])  # float [1, width], of unit length
```""",
        limits="It ranks pictures of this world; on photographs its scores mean nothing.",
    ),
    "safety": Kind(
        library="torch",
        title="safety checker {name}",
        what="Probability in [0, 1] that a picture shows this motif, which stands for what must not be shown.\n"
        "The threshold finds 99.5 % of the motifs in held-out drawings.",
        use="""```python
from pathlib import Path
from agents.models.safety import SafetyChecker

checker = SafetyChecker.load(Path("infra/models/safety/{name}"))
checker.score([picture])  # uint8 [h, w, 3], any size
```""",
        limits="It knows one motif of this world, and nothing of photographs. Of what levels generate those images\n"
        "are counted that show what they were asked for.",
    ),
}
