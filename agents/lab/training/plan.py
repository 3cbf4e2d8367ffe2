"""What there is to train: each step with what it needs, what it writes and how long it takes. No torch here."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from schemas.errors import Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """The work folder and the folder of shipped models; artefacts are named "work/..." and "models/..."."""

    work: Path
    models: Path

    def path(self, artefact: str) -> Path:
        """The file or folder of an artefact."""
        root, _, rest = artefact.partition("/")
        assert root in ("work", "models"), artefact
        return (self.work if root == "work" else self.models) / rest


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One process of training: `train(work, models, seed, **arguments)` of a module."""

    name: str
    module: str  # below agents.lab.training
    seed: int
    minutes: float  # measured on one of two cores
    needs: tuple[str, ...] = ()  # artefacts
    writes: tuple[str, ...]
    traces: tuple[str, ...] = ()  # stems (globs) of its checkpoints, notes and caches in the work folder, beside `name`
    arguments: dict[str, Any] = field(default_factory=dict)


_TEXT: Final = ("work/tokenizer", "work/text_encoder")
_ENCODED: Final = ("work/vae", *_TEXT)  # what images and prompts are turned into numbers by
_UNETS: Final = ("work/unet_XS", "work/unet_light", "work/unet_L", "work/unet_heavy")
_LEVELS: Final = ("models/light", "models/middle", "models/heavy")

STEPS: Final[dict[str, Step]] = {
    step.name: step
    for step in (
        Step(name="autoencoder", module="generators.autoencoder", seed=1, minutes=22, writes=("work/vae",)),
        Step(
            name="text_encoder",
            module="generators.text_encoder",
            seed=2,
            minutes=30,
            writes=("work/tokenizer", "work/text_encoder", "work/caption_reader.safetensors"),
        ),
        Step(
            name="decoder",
            module="generators.decoder",
            seed=4,
            minutes=6,
            needs=("work/vae",),
            writes=("work/vae_sharp",),
        ),
        Step(
            name="quick_decoder",
            module="generators.quick_decoder",
            seed=5,
            minutes=15,
            needs=("work/vae_sharp",),
            writes=("work/vae_quick",),
        ),
        *(
            Step(
                name=f"unet_{size}",
                module="generators.unet",
                seed=3,
                minutes=minutes,
                needs=(*_ENCODED, *forerunner),
                writes=(f"work/unet_{size}",),
                arguments={"size": size},
            )
            for size, minutes, forerunner in (("XS", 35, ()), ("L", 60, ()), ("XL", 60, ("work/unet_L",)))
        ),
        Step(
            name="unet_light",
            module="generators.light",
            seed=12,
            minutes=15,
            needs=(*_ENCODED, "work/unet_XS"),
            writes=("work/unet_light",),
        ),
        Step(
            name="unet_heavy",
            module="generators.heavy",
            seed=13,
            minutes=25,
            needs=(*_ENCODED, "work/unet_XL"),
            writes=("work/unet_heavy",),
        ),
        Step(
            name="bases",
            module="generators.bases",
            seed=7,
            minutes=20,
            needs=(*_ENCODED, "work/vae_sharp", "work/unet_XS"),
            writes=("work/unet_chalk", "work/unet_woodcut", "models/chalk", "models/woodcut"),
            traces=("unet_chalk", "unet_woodcut"),
        ),
        Step(
            name="assemble",
            module="generators.assemble",
            seed=0,
            minutes=1,
            needs=(*_ENCODED, "work/vae_sharp", "work/vae_quick", *_UNETS, "work/unet_chalk", "work/unet_woodcut"),
            writes=(*_LEVELS, "models/poster"),
        ),
        Step(
            name="lora",
            module="generators.lora",
            seed=8,
            minutes=25,
            needs=(*_ENCODED, "work/vae_sharp", "work/unet_XS"),
            writes=("models/loras",),
            traces=("lora_*",),
        ),
        Step(
            name="controlnet",
            module="generators.controlnet",
            seed=9,
            minutes=15,
            needs=(*_ENCODED, "work/vae_sharp", "work/unet_XS"),
            writes=("models/controlnet",),
        ),
        Step(
            name="scorer", module="discriminators.scorer", seed=10, minutes=15, needs=_TEXT, writes=("models/scorer",)
        ),
        Step(
            name="discriminator",
            module="discriminators.discriminator",
            seed=6,
            minutes=56,
            needs=(*_TEXT, "work/caption_reader.safetensors", *_LEVELS, "models/scorer"),
            writes=("models/discriminators",),
            traces=("discriminator_*",),
        ),
        Step(
            name="safety",
            module="discriminators.safety",
            seed=12,
            minutes=6,
            needs=("models/scorer", *_LEVELS, "models/poster"),
            writes=("models/safety",),
            traces=("safety_*",),
        ),
        Step(
            name="classifier",
            module="classifiers.predictor",
            seed=11,
            minutes=18,
            needs=(*_TEXT, "work/caption_reader.safetensors", *_LEVELS, "models/scorer"),
            writes=("models/classifiers", "models/rules"),
            traces=("predictor_*", "rules", "calibration/*", "calibration/pictures/*"),
        ),
    )
}
FAMILY: Final = (
    "autoencoder", "text_encoder", "decoder", "quick_decoder", "unet_XS", "unet_light", "unet_L", "unet_XL",
    "unet_heavy", "bases", "assemble",
)  # fmt: skip
TARGETS: Final[dict[str, tuple[str, ...]]] = {
    "all": (*FAMILY, "lora", "controlnet", "scorer", "discriminator", "safety", "classifier"),
    "family": FAMILY,
    "lora": ("lora",),
    "controlnet": ("controlnet",),
    "classifier": ("classifier",),
    "discriminator": ("discriminator",),
    "scorer": ("scorer",),
    "safety": ("safety",),
    "cards": (),
}
ABOUT: Final[dict[str, str]] = {
    "all": "everything below, in order",
    "family": "autoencoder, text encoder, UNets, the three base models",
    "lora": "six style adapters for the base poster",
    "controlnet": "outlines for the base poster",
    "classifier": "how well each level will do, from the prompt alone",
    "discriminator": "which images are good enough",
    "scorer": "a small CLIP of this world",
    "safety": "which images show a motif that is taken for a forbidden one",
    "cards": "model cards alone, from what was measured since (every target writes them at its end)",
}
# Where a part lies that an earlier training shipped, for a step whose forerunners were not trained in this work folder.
# Not light's own UNet and decoder: a work folder from before it had them would get another family's, for other latents.
SHIPPED: Final[dict[str, str]] = {
    "work/vae": "heavy/vae",
    "work/vae_sharp": "heavy/vae",
    "work/text_encoder": "heavy/text_encoder",
    "work/tokenizer": "heavy/tokenizer",
    "work/unet_XS": "poster/unet",
    "work/unet_L": "middle/unet",
    "work/unet_heavy": "heavy/unet",
    "work/unet_chalk": "chalk/unet",
    "work/unet_woodcut": "woodcut/unet",
}


def steps_of(target: str) -> tuple[Step, ...]:
    """The steps of a target or the one step of that name. Raises Unknown."""
    if target not in TARGETS and target not in STEPS:
        raise Unknown("target", target, (*TARGETS, *STEPS))
    return tuple(STEPS[name] for name in TARGETS.get(target, (target,)))


def writer_of(artefact: str) -> Step:
    """The step that writes an artefact."""
    return next(step for step in STEPS.values() if artefact in step.writes)
