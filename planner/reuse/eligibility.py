"""Whether a request may begin from a stored image, and whether its own image may be stored."""

from dataclasses import dataclass
from enum import StrEnum

from planner.catalog.option_limits import OPTIONS
from planner.catalog.options import AS_IT_IS, PLAIN
from schemas.messages import GenerateOptions


class Consent(StrEnum):
    """A request's option `reuse`."""

    UNSAID = ""  # own images, but nothing with an explicit seed
    OFF = "off"  # neither begin from a stored image nor store its own
    OWN = "own"  # begin from images of its own tenant and store for it


class Refusal(StrEnum):
    """Why a request is not looked up, or its image not stored; the first that holds."""

    OPTED_OUT = "opted-out"  # it says `reuse: off`
    PRIVATE = "private"
    FLAGGED = "flagged"  # by moderation
    SEED = "seed"  # an explicit seed asks for a reproducible image
    DRAFT = "draft"  # it refines a draft, which is nearer to its prompt than any neighbour
    MANY_IMAGES = "many-images"  # n > 1: images begun from one latent resemble each other
    NEGATIVE_PROMPT = "negative-prompt"  # a neighbour may show what is ruled out
    IMAGE = "image"  # it begins with an image of its own
    CONTROLS = "controls"  # the image follows a condition that the prompt does not state
    ADAPTERS = "adapters"  # they change the image as another model would
    STRICT = "strict"  # what is asked for is done to the letter, all steps included
    STEPS = "steps"  # fewer or more than the variant's own: the stored image would be of another quality
    GUIDANCE = "guidance"  # another than the variant's own
    OPTION = "option"  # any other that changes the image, of `planner.catalog.options.PLAIN`
    SIZE = "size"  # another than the variant's own: a lookup finds images of that size alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request as the rules of reuse read it, resolved against the variant that generates it."""

    consent: Consent = Consent.UNSAID
    has_seed: bool = False  # an explicit one
    has_draft: bool = False  # it refines a rejected image
    is_private: bool = False
    is_flagged: bool = False
    options: GenerateOptions = AS_IT_IS
    own_steps: int = 0  # of the variant, where the request states none
    own_guidance: float = 0.0
    own_size: tuple[int, int] = (0, 0)  # (width, height) in px


def lookup_refusal(asked: Asked) -> Refusal | None:
    """Return why a request must not begin from a stored image; None if it may.

    `steps`, `guidance` and sizes are no reason: K is a share of the request's own steps, guidance is the request's own
    from step K on, and a stored image of another size is a miss (`neighbour.py`).
    """
    if refusal := _personal(asked):
        return refusal
    if asked.has_seed and asked.consent is not Consent.OWN:
        return Refusal.SEED
    if asked.has_draft:
        return Refusal.DRAFT
    if asked.options.strict or asked.options.quality_at_least is not None:
        return Refusal.STRICT
    return _unlike_its_prompt(asked.options)


def storage_refusal(asked: Asked) -> Refusal | None:
    """Return why an image must not be stored for others to begin from; None if it may.

    An explicit seed is no reason: the image shows its prompt like any other. Options that change the image are, since a
    later request would take it for an ordinary one.
    """
    if refusal := _personal(asked) or _unlike_its_prompt(asked.options):
        return refusal
    options, (width, height) = asked.options, asked.own_size
    if options.steps not in (None, asked.own_steps):
        return Refusal.STEPS
    if options.guidance not in (None, asked.own_guidance):
        return Refusal.GUIDANCE
    if options.width not in (None, width) or options.height not in (None, height):
        return Refusal.SIZE
    return None


def _personal(asked: Asked) -> Refusal | None:
    if asked.consent is Consent.OFF:
        return Refusal.OPTED_OUT
    if asked.is_private:
        return Refusal.PRIVATE
    return Refusal.FLAGGED if asked.is_flagged else None


def _unlike_its_prompt(options: GenerateOptions) -> Refusal | None:
    """Return the option by which images of a prompt are not what the prompt alone says."""
    if options.n > 1:
        return Refusal.MANY_IMAGES
    if options.negative_prompt:
        return Refusal.NEGATIVE_PROMPT
    if options.image:
        return Refusal.IMAGE
    if options.controls:
        return Refusal.CONTROLS
    if options.adapters:
        return Refusal.ADAPTERS
    return Refusal.OPTION if any(getattr(options, name) != OPTIONS[name].default for name in PLAIN) else None
