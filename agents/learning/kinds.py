"""The kinds of judges that can be fitted, by the names that options give them."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

DISCRIMINATORS: Final = ("pixels",)
CLASSIFIERS: Final = ("words",)


class Fitting(NamedTuple):
    """How judges are fitted."""

    discriminator: str = "pixels"  # one of DISCRIMINATORS; "": none
    classifier: str = "words"  # one of CLASSIFIERS; "": none
    device: str = ""  # "": CUDA where there is one


def discriminators() -> dict[str, Callable[..., Any]]:
    """Return the functions (images, prompts, right [n], seed, device) that fit each kind."""
    from agents.learning.discriminators.pixels import fit_pixels

    return dict(zip(DISCRIMINATORS, (fit_pixels,), strict=True))


def classifiers() -> dict[str, Callable[..., Any]]:
    """Return the functions (prompts, quality [n, k], levels, seed) that fit each kind."""
    from agents.learning.classifiers.words import fit_words

    return dict(zip(CLASSIFIERS, (fit_words,), strict=True))
