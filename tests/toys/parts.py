"""The parts that several families share, of their true classes, with a few thousand random weights each."""

from typing import Any

from tests.toys.tokenizers import CLIP_TOKENS, TOKENS

WIDTH = 16  # of every text encoder


def clip_text(projection: bool = False) -> Any:
    """Return CLIP's text encoder; `projection`: the class that also projects its pooled output."""
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

    config = CLIPTextConfig(
        vocab_size=CLIP_TOKENS, hidden_size=WIDTH, intermediate_size=2 * WIDTH, num_hidden_layers=2,
        num_attention_heads=2, projection_dim=WIDTH, max_position_embeddings=77, bos_token_id=512, eos_token_id=513,
        pad_token_id=513,
    )  # fmt: skip
    return (CLIPTextModelWithProjection if projection else CLIPTextModel)(config)


def t5_text(kind: str = "T5") -> Any:
    """Return the encoder of T5 or of UMT5."""
    import transformers

    config = getattr(transformers, f"{kind}Config")(
        vocab_size=TOKENS, d_model=WIDTH, d_kv=8, d_ff=2 * WIDTH, num_layers=2, num_heads=2,
        feed_forward_proj="gated-gelu", is_encoder_decoder=False,
    )  # fmt: skip
    return getattr(transformers, f"{kind}EncoderModel")(config)


def decoder_config(layers: int = 2, **more: Any) -> dict[str, Any]:
    """Return the arguments that the configurations of all language models share."""
    return {
        "vocab_size": TOKENS, "hidden_size": WIDTH, "intermediate_size": WIDTH, "num_hidden_layers": layers,
        "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": WIDTH, "max_position_embeddings": 2048,
        "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0, **more,
    }  # fmt: skip


def qwen_vision_text() -> Any:
    """Return Qwen 2.5 VL with a vision tower of one layer."""
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    rope = {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10_000.0}
    text = decoder_config(rope_parameters=rope)
    vision = {
        "depth": 1, "hidden_size": WIDTH, "intermediate_size": WIDTH, "num_heads": 2, "out_hidden_size": WIDTH,
        "patch_size": 4, "fullatt_block_indexes": [0],
    }  # fmt: skip
    special = {"image_token_id": 3, "video_token_id": 4, "vision_start_token_id": 5, "vision_end_token_id": 6}
    return Qwen2_5_VLForConditionalGeneration(Qwen2_5_VLConfig(text_config=text, vision_config=vision, **special))


def gemma_text() -> Any:
    from transformers import Gemma2Config, Gemma2Model

    return Gemma2Model(Gemma2Config(**decoder_config(query_pre_attn_scalar=WIDTH, sliding_window=512)))


def autoencoder(channels: int, blocks: int = 2, **more: Any) -> Any:
    """Return an autoencoder whose latents have a pixel for 2 ** (blocks - 1) of the image."""
    from diffusers import AutoencoderKL

    return AutoencoderKL(
        block_out_channels=(8,) * blocks, layers_per_block=1, norm_num_groups=4, latent_channels=channels,
        down_block_types=("DownEncoderBlock2D",) * blocks, up_block_types=("UpDecoderBlock2D",) * blocks,
        sample_size=64, **more,
    )  # fmt: skip


def flow_autoencoder(blocks: int = 4) -> Any:
    """Return the autoencoder of 16 channels that the models of flow matching share."""
    return autoencoder(
        16, blocks, scaling_factor=0.3611, shift_factor=0.1159, use_quant_conv=False, use_post_quant_conv=False
    )


def deep_autoencoder() -> Any:
    """Return Sana's, whose latents have a pixel for 32 of the image."""
    from diffusers import AutoencoderDC

    six = {"block_out_channels": (8,) * 6, "layers_per_block": (1,) * 6, "qkv_multiscales": ((),) * 6}
    return AutoencoderDC(
        latent_channels=4, attention_head_dim=8, scaling_factor=0.41407,
        **{f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in six.items()},
    )  # fmt: skip


def unet(cross: int, **more: Any) -> Any:
    """Return a UNet of two levels; `cross`: width of the text."""
    from diffusers import UNet2DConditionModel

    shape = {"attention_head_dim": 2, "cross_attention_dim": cross, "in_channels": 4, "out_channels": 4, **more}
    return UNet2DConditionModel(
        block_out_channels=(8, 16), layers_per_block=1, sample_size=8, norm_num_groups=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        **shape,
    )  # fmt: skip


def flow_scheduler(**more: Any) -> Any:
    from diffusers import FlowMatchEulerDiscreteScheduler

    return FlowMatchEulerDiscreteScheduler(**{"shift": 3.0, **more})


def dynamic_flow_scheduler() -> Any:
    """Return the scheduler whose shift depends on the size of the image."""
    return flow_scheduler(
        use_dynamic_shifting=True, base_shift=0.5, max_shift=1.15, base_image_seq_len=256, max_image_seq_len=4096
    )
