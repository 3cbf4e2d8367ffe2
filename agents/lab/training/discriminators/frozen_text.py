"""The trained text side of the work folder, as the parts that judge and score use it."""

from pathlib import Path

from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import CLIPTextModel

from agents.models.caption_reader import CaptionReader
from agents.models.prompt_encoder import PromptEncoder
from agents.models.text_tower import from_clip
from agents.models.tokens import TOKENIZER


def tokenizer_file(work: Path) -> Path:
    return work / "tokenizer" / TOKENIZER


def prompt_encoder(work: Path) -> PromptEncoder:
    """The text encoder, frozen."""
    states = CLIPTextModel.from_pretrained(work / "text_encoder").state_dict()
    encoder = PromptEncoder(from_clip(states), Tokenizer.from_file(str(tokenizer_file(work))))
    return encoder.eval().requires_grad_(False)


def caption_reader(work: Path) -> CaptionReader:
    """The reader of its states, frozen."""
    reader = CaptionReader()
    reader.load_state_dict({name: v.float() for name, v in load_file(work / "caption_reader.safetensors").items()})
    return reader.eval().requires_grad_(False)
