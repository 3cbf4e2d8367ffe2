"""Fits the kind `words`: from prompts and judged images of each level, in seconds, without a download."""

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from agents.classifier.features import FeatureExtractor
from agents.classifier.predictors.words import BUCKETS, KIND, WordsPredictor, hashed, numbers
from agents.learning.classifiers.fitted import Fitted, check
from agents.learning.classifiers.heads import fit_heads
from agents.learning.progress import Progress, nothing


def fit_words(
    prompts: Sequence[str], quality: np.ndarray, levels: Sequence[str], seed: int, progress: Progress = nothing
) -> Fitted:
    """Fit a regression a level on n prompts; quality [n, k] in 0..1, nan where a level's image was not judged.

    `levels`: k, the fastest first. The same seed gives the same classifier. Raises PochadeError for labels that do not
    fit, or a level without any.
    """
    check(prompts, quality, levels)
    extractor = FeatureExtractor()
    words, beside = [hashed(prompt) for prompt in prompts], np.array([numbers(extractor, prompt) for prompt in prompts])
    starts = np.cumsum([0, *map(len, words)])
    used, buckets = np.unique(np.concatenate([np.array([*each], int) for each in words]), return_inverse=True)
    counts = np.concatenate([np.array([*each.values()], float) for each in words])
    table = sparse.csr_matrix((counts, buckets, starts), shape=(len(prompts), len(used)))
    mean, spread = beside.mean(0), beside.std(0) + 1e-6
    heads = fit_heads(sparse.hstack([table, (beside - mean) / spread], format="csr"), quality, seed, progress)
    of_words, of_numbers = np.zeros((BUCKETS, len(levels)), np.float16), heads.weights[len(used) :] / spread[:, None]
    of_words[used] = heads.weights[: len(used)]
    weights = {
        "words": of_words,
        "numbers": of_numbers.astype(np.float32),
        "bias": (heads.bias - mean @ of_numbers).astype(np.float32),
    }
    config = {"kind": KIND, "levels": list(levels), "strengths": list(heads.strengths)}
    return Fitted(config, weights, WordsPredictor(levels, weights), heads.unseen)
