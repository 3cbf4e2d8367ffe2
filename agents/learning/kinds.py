"""The kinds of judges that can be fitted, by the names that options give them."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from schemas.errors import PochadeError

DISCRIMINATORS: Final = ("pixels", "embedding", "image-embedding", "network")
CLASSIFIERS: Final = ("words", "encoder", "bert")


class Fitting(NamedTuple):
    """How judges are fitted."""

    discriminator: str = "pixels"  # one of DISCRIMINATORS; "": none
    classifier: str = "words"  # one of CLASSIFIERS; "": none
    encoder: str = ""  # folder or hub id of the model that all but `pixels` and `words` read with
    real: str = ""  # folder of real images, or a level: what the discriminator tells the first level's images from
    device: str = ""  # "": CUDA where there is one


def discriminator(how: Fitting) -> Callable[..., Any]:
    """Return the function (images, prompts, right [n], seed=) that fits the kind.

    Raises PochadeError for a kind that reads with a model, where none is given.
    """
    from agents.learning.discriminators.embedding import fit_embedding
    from agents.learning.discriminators.network import fit_network
    from agents.learning.discriminators.pixels import fit_pixels
    from agents.models.judges.network import OURS

    if how.discriminator == "pixels":
        return partial(fit_pixels, device=how.device)
    if how.discriminator == "network":
        return partial(fit_network, architecture=how.encoder or OURS, device=how.device)
    with_prompt = how.discriminator == "embedding"
    return partial(fit_embedding, encoder=_encoder(how, how.discriminator), with_prompt=with_prompt, device=how.device)


def classifier(how: Fitting) -> Callable[..., Any]:
    """Return the function (prompts, quality [n, k], levels, seed) that fits the kind.

    Raises PochadeError for a kind that reads with a model, where none is given.
    """
    from agents.learning.classifiers.pretrained import fit_bert, fit_encoder
    from agents.learning.classifiers.words import fit_words

    if how.classifier == "words":
        return fit_words
    fit: Callable[..., Any] = fit_encoder if how.classifier == "encoder" else fit_bert
    return partial(fit, model=_encoder(how, how.classifier), device=how.device)


def _encoder(how: Fitting, kind: str) -> str:
    if not how.encoder:
        raise PochadeError(f"{kind} reads with a model: name its folder or hub id with --encoder")
    return how.encoder
