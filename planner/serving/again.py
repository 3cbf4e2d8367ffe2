"""Makes the request that makes an image again: as it was made, with another seed, or by another level."""

from dataclasses import fields, replace
from typing import Any, Final

from planner.catalog.components import BASE
from planner.serving.admission.admission import SEED_LIMIT
from schemas.avro import to_wire
from schemas.errors import PochadeError
from schemas.ids import new_request_id, seed_of
from schemas.messages import GenerateOptions, GenerateRequest, Made, Result, Status

OF_COMPONENTS: Final = (
    "adapters", "adapter_weights", "controls", "control_images", "control_weights", "image", "mask", "strength",
)  # fmt: skip


class NotAgain(PochadeError):
    """No request makes an image again: why, and what can be asked for instead."""


def again(
    request: GenerateRequest | None, result: Result, now_ms: int, *, quality: str = "", model: str = "",
    seed: int | None = None,
) -> GenerateRequest:  # fmt: skip
    """Return a new request for the images of a result. `request`: what it asked; None: that is not kept.

    With the same weights, engine and kind of device its images have the same pixels. `quality`, `model`: by another
    level, which has steps and guidance of its own where none were asked for. Raises NotAgain.
    """
    made, name = result.made, result.request_id
    if result.status is not Status.COMPLETED:
        raise NotAgain(f"{name} ended as {result.status}, without an image: ask anew with `pochade submit`")
    if request is None:
        raise NotAgain(f"what {name} asked for is not known: no outcome that is kept holds it")
    if made is None:
        own = seed_of(name) if request.seed is None else request.seed
        raise NotAgain(
            f"{name} does not say how it was made: an older release made it; its seed is {own}, which "
            "`pochade submit --seed` takes"
        )
    wanted = made.seed if seed is None else seed
    if wanted is None:
        raise NotAgain(f"the server of {made.variant} drew a seed of its own for {name}, which it does not say")
    anew = replace(request, request_id=new_request_id(), created_ms=now_ms, deadline_ms=None, seed=wanted)
    if quality or model:
        base = request.options.model if request.options.model != made.variant else ""
        return replace(
            anew, quality=quality or "auto", options=replace(request.options, model=model or base, reuse="off")
        )
    if made.begins_with in ("draft", "latent"):
        begun = "its draft" if made.begins_with == "draft" else "the stored latent of an earlier image"
        raise NotAgain(
            f"{name} was begun at step {made.from_step} of {made.steps} with {begun}, which no request can name: its "
            f"pixels cannot be made again. --model {made.variant} makes another image, from noise with the same seed"
        )
    return replace(anew, quality="auto", options=_options(request.options, made, result.components))


def _options(asked: GenerateOptions, made: Made, components: tuple[str, ...]) -> GenerateOptions:
    """Return the options that made an image: strict, so that none of them is overridden, and no other level serves."""
    bases = [name for kind, _, name in (each.partition(":") for each in components) if kind == BASE]
    plain = len(bases) == len(components) and made.strength is None  # components are honoured all, or none
    left_out: dict[str, Any] = {
        each.name: each.default for each in fields(asked) if plain and each.name in OF_COMPONENTS
    }
    return replace(
        asked, model=bases[0] if bases else made.variant, steps=made.steps, guidance=made.guidance, width=made.width,
        height=made.height, negative_prompt=made.negative_prompt, strict=True, reuse="off", quality_at_least=None,
        **left_out,
    )  # fmt: skip


def differences(made: Made | None, other: Made | None) -> str:
    """Say what two images were made with differently, such as "device cpu -> cuda"; "" if nothing is known."""
    if made is None or other is None:
        return ""
    one, two = public(made), public(other)
    return ", ".join(f"{name} {one[name]} -> {two[name]}" for name in one if one[name] != two[name])


def public(made: Made, number: int = 0) -> dict[str, Any]:
    """Return how an image of a request was made, as JSON has it, for whoever gets that image.

    `number`: of the image, the first one's being 0, which decides its seed. What its worker costs is the deployment's
    own business, and would tell apart files that were made alike.
    """
    found: dict[str, Any] = to_wire(Made)(made)
    del found["price_per_hour"]
    return found if made.seed is None else found | {"seed": (made.seed + number) % SEED_LIMIT}
