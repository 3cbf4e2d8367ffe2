"""A pipeline of Stable Diffusion XL with few random weights: its latents have the usual 4 channels."""

import importlib
from typing import Any

import torch
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection


def extra_large_pipeline(tokenizer: Any) -> Any:
    """Return the pipeline, always with the same weights."""
    diffusers = importlib.import_module("diffusers")
    torch.manual_seed(0)
    text = CLIPTextConfig(
        hidden_size=32, intermediate_size=37, num_attention_heads=4, num_hidden_layers=2, projection_dim=32,
        vocab_size=len(tokenizer), max_position_embeddings=tokenizer.model_max_length, hidden_act="gelu",
    )  # fmt: skip
    unet = diffusers.UNet2DConditionModel(
        block_out_channels=(32, 64), layers_per_block=1, sample_size=16, in_channels=4, out_channels=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=(2, 4), use_linear_projection=True, addition_embed_type="text_time",
        addition_time_embed_dim=8, projection_class_embeddings_input_dim=80, cross_attention_dim=64,
    )  # fmt: skip
    vae = diffusers.AutoencoderKL(
        block_out_channels=(32, 64), latent_channels=4, sample_size=32, down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
    )  # fmt: skip
    pipeline = diffusers.StableDiffusionXLPipeline(
        vae=vae, unet=unet, text_encoder=CLIPTextModel(text).eval(), tokenizer=tokenizer, tokenizer_2=tokenizer,
        text_encoder_2=CLIPTextModelWithProjection(text).eval(), add_watermarker=False,
        scheduler=diffusers.EulerDiscreteScheduler(timestep_spacing="trailing"),
    )  # fmt: skip
    pipeline.set_progress_bar_config(disable=True)
    return pipeline
