"""A BERT of this world's words with random weights, to be tuned by `fit_bert`: the network of ARGUS's classifier (4.1).

    python -m agents.lab.training.classifiers.bert CALIBRATION FOLDER    # of .npz files, as `pochade train` has

We differ: it is not pretrained, as there is nothing to fetch here.
"""

import string
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import torch
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

from agents.classifier.features import WORD
from agents.lab.training.classifiers import calibration
from agents.learning.classifiers.pretrained import fit_bert

MARKS: Final = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
EPOCHS, RATE = 8, 1e-3  # 16 epochs recover no more: .44 of the gain on 4,000 prompts, and 8 .47


def write_blank(folder: Path, prompts: Sequence[str], seed: int, width: int = 64, layers: int = 2) -> None:
    """Write a network and a tokenizer, which knows the words that are in two prompts or more, and letters."""
    count = Counter(word for prompt in prompts for word in {*WORD.findall(prompt.lower())})
    letters = string.ascii_lowercase + string.digits + string.punctuation
    words = sorted(word for word, times in count.items() if times > 1 and len(word) > 1)
    pieces = [*MARKS, *letters, *(f"##{letter}" for letter in letters), *words]
    config = BertConfig(
        vocab_size=len(pieces), hidden_size=width, num_hidden_layers=layers, num_attention_heads=4,
        intermediate_size=2 * width, max_position_embeddings=128,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        BertForSequenceClassification(config).save_pretrained(folder)
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    BertTokenizer(vocab=vocabulary, model_max_length=128).save_pretrained(folder)


def main(source: str, folder: str, seed: int = 1) -> None:
    """Tune a blank one on the prompts of a calibration set that are not held out."""
    data = calibration.read(Path(source))
    data = data.of([level for level in data.levels if "~" not in level])
    rows = ~data.held_out()
    prompts = [prompt for prompt, taken in zip(data.prompts, rows, strict=True) if taken]
    with TemporaryDirectory() as blank:
        write_blank(Path(blank), prompts, seed)
        fit_bert(
            prompts, data.quality[rows], data.levels, seed, blank, epochs=EPOCHS, rate=RATE,
            progress=lambda share: print(f"\r{share:.0%}", end="", flush=True),
        ).save(Path(folder))  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
