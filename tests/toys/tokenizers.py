"""Tokenizers of the classes that the pipelines name, made without a network: a token for each byte or letter."""

import string
from typing import Any

from tokenizers import Tokenizer, decoders, models, processors
from tokenizers.pre_tokenizers import ByteLevel

LETTERS = sorted(ByteLevel.alphabet())
START, END = "<|startoftext|>", "<|endoftext|>"
CHAT = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.content is string %}{{ message.content }}{% else %}{{ message.content[0].text }}{% endif %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CLIP_TOKENS, TOKENS = 520, 300  # rows of the tables of encoders: more than the tokens of their tokenizers here


def _numbered(*tokens: str) -> dict[str, int]:
    return {token: number for number, token in enumerate(tokens)}


def clip_tokenizer() -> Any:
    """Return one of 77 tokens; the end is 513, as the pipelines look for the highest."""
    from transformers import CLIPTokenizer

    vocabulary = _numbered(*LETTERS, *(f"{letter}</w>" for letter in LETTERS), START, END)
    return CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=77)


def t5_tokenizer() -> Any:
    from transformers import T5Tokenizer

    letters = [(letter, -3.0) for letter in string.printable if not letter.isspace()]
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581", -2.0), *letters]
    return T5Tokenizer(vocab=pieces, extra_ids=0, additional_special_tokens=[], model_max_length=512)


def byt5_tokenizer() -> Any:
    from transformers import ByT5Tokenizer

    return ByT5Tokenizer(extra_ids=0)


def qwen_tokenizer() -> Any:
    """Return Qwen 2's class, with a template for chats."""
    from transformers import Qwen2Tokenizer

    made = Qwen2Tokenizer(vocab=_numbered(END, "<|im_start|>", "<|im_end|>", *LETTERS), merges=[])
    made.add_tokens(["<|im_start|>", "<|im_end|>"], special_tokens=True)
    made.chat_template = CHAT
    return made


def gemma_tokenizer() -> Any:
    from transformers import GemmaTokenizer

    letters = [letter for letter in string.printable if not letter.isspace()]
    return GemmaTokenizer(
        vocab=_numbered("<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "\u2581", "\n", *letters), merges=[]
    )


def glm_tokenizer() -> Any:
    """Return one that begins every text with a token of its own, as GLM's does: an empty prompt has a token."""
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE(vocab=_numbered(END, "[gMASK]", *LETTERS), merges=[]))
    core.pre_tokenizer, core.decoder = ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    core.post_processor = processors.TemplateProcessing(single="[gMASK] $A", special_tokens=[("[gMASK]", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=core, eos_token=END, pad_token=END, padding_side="left")
