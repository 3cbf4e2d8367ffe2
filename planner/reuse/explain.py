"""Why a job ran all its steps, in words, for `explain`."""

from collections.abc import Mapping
from typing import Final

from planner.reuse.eligibility import Refusal
from planner.reuse.neighbour import Miss

MISSES: Final[Mapping[Miss, str]] = {
    Miss.ROUTE: "its level asks for no reuse, as a level heavy~k4 would",
    Miss.INELIGIBLE: "the request does not allow it",
    Miss.RETRY: "an earlier attempt at the job did not end well",
    Miss.ABSENT: "the worker had no vector store open (vectors.url), or its engine has no latents",
    Miss.UNPROFITABLE: "a lookup would have cost what it could have saved",
    Miss.BREAKER: "the stores had failed, or cost more than they saved: no lookup was made",
    Miss.TIMEOUT: "the stores did not answer in time",
    Miss.FAILED: "a store answered with an error",
    Miss.NONE: "no stored image of its tenant was near",
    Miss.TENANT: "no stored image of its tenant was near",
    Miss.MODEL: "the nearest image was made by a model with another autoencoder",
    Miss.SIZE: "the nearest image has another size",
    Miss.DIMENSION: "the nearest image, or its vector, has another dimension",
    Miss.STALE: "the nearest image had expired",
    Miss.DERIVED: "the nearest image had itself begun from a stored one",
    Miss.RUBBISH: "the nearest image's row or latent is damaged",
    Miss.FLOOR: "no stored image was similar enough for the plan's floors",
    Miss.GUARD: "the nearest prompt states other facts",
    Miss.GONE: "the latent of the nearest image is gone",
    Miss.STEPS: "the plan allows less than one step to be skipped",
    Miss.ENGINE: "the engine could not begin with the latent",
}
REFUSALS: Final[Mapping[Refusal, str]] = {
    Refusal.OPTED_OUT: "it says reuse: off",
    Refusal.PRIVATE: "it is private",
    Refusal.FLAGGED: "moderation flagged it",
    Refusal.SEED: "it states a seed, and not reuse: own",
    Refusal.DRAFT: "it refines a draft",
    Refusal.MANY_IMAGES: "it asks for several images",
    Refusal.NEGATIVE_PROMPT: "it has a negative prompt",
    Refusal.IMAGE: "it begins with an image of its own",
    Refusal.CONTROLS: "it has controls",
    Refusal.ADAPTERS: "it has adapters",
    Refusal.STRICT: "it is strict",
    Refusal.STEPS: "it states other steps than the variant's own",
    Refusal.GUIDANCE: "it states another guidance than the variant's own",
    Refusal.OPTION: "it states an option that changes the image",
    Refusal.SIZE: "it states another size than the variant's own",
}


def meaning(miss: str) -> str:
    """Return a result's reason in words; the word itself where a newer release wrote it."""
    why, _, refusal = miss.partition("/")
    try:
        said = MISSES[Miss(why)]
        return f"{said}: {REFUSALS[Refusal(refusal)]}" if refusal else said
    except ValueError:
        return miss
