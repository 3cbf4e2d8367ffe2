"""The kinds of judges that can be fitted, by the names that options give them."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from schemas.errors import PochadeError

DISCRIMINATORS: Final = ("pixels",)
CLASSIFIERS: Final = ("words", "encoder", "bert")


class Fitting(NamedTuple):
    """How judges are fitted."""

    discriminator: str = "pixels"  # one of DISCRIMINATORS; "": none
    classifier: str = "words"  # one of CLASSIFIERS; "": none
    encoder: str = ""  # folder or hub id of the model that `encoder` and `bert` read with
    device: str = ""  # "": CUDA where there is one


def discriminator(how: Fitting) -> Callable[..., Any]:
    """Return the function (images, prompts, right [n], seed) that fits the kind."""
    from agents.learning.discriminators.pixels import fit_pixels

    return partial(fit_pixels, device=how.device)


def classifier(how: Fitting) -> Callable[..., Any]:
    """Return the function (prompts, quality [n, k], levels, seed) that fits the kind.

    Raises PochadeError for a kind that reads with a model, where none is given.
    """
    from agents.learning.classifiers.pretrained import fit_bert, fit_encoder
    from agents.learning.classifiers.words import fit_words

    if how.classifier == "words":
        return fit_words
    if not how.encoder:
        raise PochadeError(f"{how.classifier} reads with a model: name its folder or hub id with --encoder")
    fit = {"encoder": fit_encoder, "bert": fit_bert}[how.classifier]
    return partial(fit, model=how.encoder, device=how.device)
