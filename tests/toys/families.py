"""One function for each family of pipelines: what its folder contains, at the smallest size that its classes take."""

from collections.abc import Callable, Mapping
from typing import Any

import diffusers

from tests.toys.parts import (
    WIDTH,
    autoencoder,
    clip_text,
    decoder_config,
    deep_autoencoder,
    dynamic_flow_scheduler,
    flow_autoencoder,
    flow_scheduler,
    gemma_text,
    qwen_vision_text,
    t5_text,
    unet,
)
from tests.toys.tokenizers import (
    byt5_tokenizer,
    clip_tokenizer,
    gemma_tokenizer,
    glm_tokenizer,
    qwen_tokenizer,
    t5_tokenizer,
)

DIFFUSION = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}


def sdxl() -> Any:
    return diffusers.StableDiffusionXLPipeline(
        vae=autoencoder(4, blocks=4, scaling_factor=0.13025),
        text_encoder=clip_text(), tokenizer=clip_tokenizer(),
        text_encoder_2=clip_text(projection=True), tokenizer_2=clip_tokenizer(),
        unet=unet(2 * WIDTH, use_linear_projection=True, addition_embed_type="text_time", addition_time_embed_dim=8,
                  projection_class_embeddings_input_dim=6 * 8 + WIDTH),
        scheduler=diffusers.EulerDiscreteScheduler(**DIFFUSION, timestep_spacing="trailing"), add_watermarker=False,
    )  # fmt: skip


def _first_version(kind: Any, scheduler: Any, **network: Any) -> Any:
    return kind(
        vae=autoencoder(4, blocks=4), text_encoder=clip_text(), tokenizer=clip_tokenizer(), scheduler=scheduler,
        unet=unet(WIDTH, **network), safety_checker=None, feature_extractor=None, requires_safety_checker=False,
    )  # fmt: skip


def sd15() -> Any:
    scheduler = diffusers.PNDMScheduler(**DIFFUSION, skip_prk_steps=True, steps_offset=1)
    return _first_version(diffusers.StableDiffusionPipeline, scheduler)


def lcm() -> Any:
    scheduler = diffusers.LCMScheduler(**DIFFUSION)
    return _first_version(diffusers.LatentConsistencyModelPipeline, scheduler, time_cond_proj_dim=8)


def sd3() -> Any:
    """Return Stable Diffusion 3.5, as medium and large have it."""
    transformer = diffusers.SD3Transformer2DModel(
        sample_size=8, patch_size=2, in_channels=16, out_channels=16, num_layers=2, attention_head_dim=8,
        num_attention_heads=2, joint_attention_dim=2 * WIDTH, caption_projection_dim=16,
        pooled_projection_dim=2 * WIDTH, pos_embed_max_size=32, qk_norm="rms_norm",
    )  # fmt: skip
    third = t5_text()
    third = type(third)(type(third.config)(**{**third.config.to_dict(), "d_model": 2 * WIDTH}))
    return diffusers.StableDiffusion3Pipeline(
        transformer=transformer, scheduler=flow_scheduler(), vae=flow_autoencoder(),
        text_encoder=clip_text(projection=True), tokenizer=clip_tokenizer(),
        text_encoder_2=clip_text(projection=True), tokenizer_2=clip_tokenizer(),
        text_encoder_3=third, tokenizer_3=t5_tokenizer(),
    )  # fmt: skip


def _flux(scheduler: Any, *, guidance_embeds: bool) -> Any:
    transformer = diffusers.FluxTransformer2DModel(
        patch_size=1, in_channels=64, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2,
        joint_attention_dim=WIDTH, pooled_projection_dim=WIDTH, axes_dims_rope=(4, 4, 8),
        guidance_embeds=guidance_embeds,
    )  # fmt: skip
    return diffusers.FluxPipeline(
        transformer=transformer, scheduler=scheduler, vae=flow_autoencoder(), text_encoder=clip_text(),
        tokenizer=clip_tokenizer(), text_encoder_2=t5_text(), tokenizer_2=t5_tokenizer(),
    )  # fmt: skip


def flux_schnell() -> Any:
    return _flux(flow_scheduler(shift=1.0), guidance_embeds=False)


def flux_dev() -> Any:
    return _flux(dynamic_flow_scheduler(), guidance_embeds=True)


def _flux2_parts(*, guidance_embeds: bool) -> dict[str, Any]:
    blocks = 4
    vae = diffusers.AutoencoderKLFlux2(
        block_out_channels=(8,) * blocks, layers_per_block=1, norm_num_groups=4, latent_channels=8, sample_size=64,
        down_block_types=("DownEncoderBlock2D",) * blocks, up_block_types=("UpDecoderBlock2D",) * blocks,
    )  # fmt: skip
    transformer = diffusers.Flux2Transformer2DModel(
        patch_size=1, in_channels=4 * 8, num_layers=1, num_single_layers=1, attention_head_dim=16,
        num_attention_heads=2, joint_attention_dim=3 * WIDTH, timestep_guidance_channels=16,
        axes_dims_rope=(4, 4, 4, 4), guidance_embeds=guidance_embeds,
    )  # fmt: skip
    return {"vae": vae, "transformer": transformer, "scheduler": dynamic_flow_scheduler()}


def flux2() -> Any:
    """Return Flux 2 with a plain tokenizer: its own, PixtralProcessor, does not load without torchvision."""
    from transformers import Mistral3Config, Mistral3ForConditionalGeneration

    text = {"model_type": "mistral", **decoder_config(layers=30)}  # it reads the 10th, 20th and 30th layer
    vision = {
        "model_type": "pixtral", "hidden_size": WIDTH, "intermediate_size": WIDTH, "num_hidden_layers": 1,
        "num_attention_heads": 2, "head_dim": 8, "image_size": 8, "patch_size": 4,
    }  # fmt: skip
    config = Mistral3Config(text_config=text, vision_config=vision, image_token_index=3)
    return diffusers.Flux2Pipeline(
        text_encoder=Mistral3ForConditionalGeneration(config), tokenizer=qwen_tokenizer(),
        **_flux2_parts(guidance_embeds=True),
    )  # fmt: skip


def flux2_klein() -> Any:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    text = Qwen3ForCausalLM(Qwen3Config(**decoder_config(layers=28)))  # it reads the 9th, 18th and 27th layer
    return diffusers.Flux2KleinPipeline(
        text_encoder=text, tokenizer=qwen_tokenizer(), is_distilled=False, **_flux2_parts(guidance_embeds=False)
    )


def qwen_image() -> Any:
    vae = diffusers.AutoencoderKLQwenImage(
        base_dim=8, z_dim=4, dim_mult=[1, 1, 1, 1], num_res_blocks=1, latents_mean=[0.0] * 4, latents_std=[1.0] * 4
    )
    transformer = diffusers.QwenImageTransformer2DModel(
        patch_size=2, in_channels=16, out_channels=4, num_layers=2, attention_head_dim=16, num_attention_heads=2,
        joint_attention_dim=WIDTH, axes_dims_rope=(4, 6, 6),
    )  # fmt: skip
    return diffusers.QwenImagePipeline(
        vae=vae, transformer=transformer, text_encoder=qwen_vision_text(), tokenizer=qwen_tokenizer(),
        scheduler=dynamic_flow_scheduler(),
    )  # fmt: skip


def z_image() -> Any:
    from transformers import Qwen3Config, Qwen3Model

    transformer = diffusers.ZImageTransformer2DModel(
        in_channels=16, dim=32, n_layers=1, n_refiner_layers=1, n_heads=2, n_kv_heads=2, cap_feat_dim=WIDTH,
        axes_dims=[4, 6, 6], axes_lens=[1024, 64, 64],
    )  # fmt: skip
    return diffusers.ZImagePipeline(
        scheduler=flow_scheduler(), vae=flow_autoencoder(), text_encoder=Qwen3Model(Qwen3Config(**decoder_config())),
        tokenizer=qwen_tokenizer(), transformer=transformer,
    )  # fmt: skip


def _sana_transformer(**more: Any) -> Any:
    return diffusers.SanaTransformer2DModel(
        in_channels=4, out_channels=4, num_attention_heads=2, attention_head_dim=8, num_layers=2,
        num_cross_attention_heads=2, cross_attention_head_dim=8, cross_attention_dim=16, caption_channels=WIDTH,
        sample_size=2, patch_size=1, **more,
    )  # fmt: skip


def sana() -> Any:
    scheduler = diffusers.DPMSolverMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0
    )
    return diffusers.SanaPipeline(
        tokenizer=gemma_tokenizer(), text_encoder=gemma_text(), vae=deep_autoencoder(),
        transformer=_sana_transformer(), scheduler=scheduler,
    )  # fmt: skip


def sana_sprint() -> Any:
    return diffusers.SanaSprintPipeline(
        tokenizer=gemma_tokenizer(), text_encoder=gemma_text(), vae=deep_autoencoder(),
        transformer=_sana_transformer(guidance_embeds=True, qk_norm="rms_norm_across_heads"),
        scheduler=diffusers.SCMScheduler(prediction_type="trigflow"),
    )  # fmt: skip


def pixart_sigma() -> Any:
    transformer = diffusers.PixArtTransformer2DModel(
        num_attention_heads=2, attention_head_dim=8, in_channels=4, out_channels=8, num_layers=2, norm_num_groups=4,
        cross_attention_dim=16, sample_size=8, patch_size=2, caption_channels=WIDTH, use_additional_conditions=False,
    )  # fmt: skip
    return diffusers.PixArtSigmaPipeline(
        tokenizer=t5_tokenizer(), text_encoder=t5_text(), vae=autoencoder(4, blocks=4, scaling_factor=0.13025),
        transformer=transformer, scheduler=diffusers.DPMSolverMultistepScheduler(beta_schedule="linear"),
    )  # fmt: skip


def hunyuan_image() -> Any:
    """Return HunyuanImage without the projection of glyphs, whose class has 4 million weights at any size."""
    vae = diffusers.AutoencoderKLHunyuanImage(
        in_channels=3, out_channels=3, latent_channels=4, block_out_channels=(32, 32), layers_per_block=1,
        spatial_compression_ratio=2, sample_size=64, scaling_factor=0.75,
    )  # fmt: skip
    transformer = diffusers.HunyuanImageTransformer2DModel(
        in_channels=4, out_channels=4, num_attention_heads=1, attention_head_dim=16, num_layers=1, num_single_layers=1,
        num_refiner_layers=1, text_embed_dim=WIDTH, rope_axes_dim=(8, 8),
    )  # fmt: skip
    guider = diffusers.guiders.AdaptiveProjectedMixGuidance
    return diffusers.HunyuanImagePipeline(
        scheduler=flow_scheduler(shift=5.0), vae=vae, text_encoder=qwen_vision_text(), tokenizer=qwen_tokenizer(),
        text_encoder_2=t5_text(), tokenizer_2=byt5_tokenizer(), transformer=transformer,
        guider=guider(guidance_scale=3.5), ocr_guider=guider(guidance_scale=3.5),
    )  # fmt: skip


def aura_flow() -> Any:
    transformer = diffusers.AuraFlowTransformer2DModel(
        sample_size=8, patch_size=2, in_channels=4, out_channels=4, num_mmdit_layers=1, num_single_dit_layers=1,
        attention_head_dim=8, num_attention_heads=2, joint_attention_dim=WIDTH, caption_projection_dim=16,
        pos_embed_max_size=64,
    )  # fmt: skip
    return diffusers.AuraFlowPipeline(
        tokenizer=t5_tokenizer(), text_encoder=t5_text("UMT5"), vae=autoencoder(4, blocks=4), transformer=transformer,
        scheduler=flow_scheduler(shift=1.73),
    )  # fmt: skip


def lumina2() -> Any:
    transformer = diffusers.Lumina2Transformer2DModel(
        sample_size=8, patch_size=2, in_channels=16, hidden_size=24, num_layers=1, num_refiner_layers=1,
        num_attention_heads=2, num_kv_heads=1, multiple_of=8, axes_dim_rope=(4, 4, 4), axes_lens=(512, 64, 64),
        cap_feat_dim=WIDTH,
    )  # fmt: skip
    return diffusers.Lumina2Pipeline(
        transformer=transformer, scheduler=flow_scheduler(), vae=flow_autoencoder(), text_encoder=gemma_text(),
        tokenizer=gemma_tokenizer(),
    )  # fmt: skip


def cogview4() -> Any:
    from transformers import GlmConfig, GlmModel

    transformer = diffusers.CogView4Transformer2DModel(
        patch_size=2, in_channels=4, out_channels=4, num_layers=2, attention_head_dim=8, num_attention_heads=2,
        text_embed_dim=WIDTH, time_embed_dim=16, condition_dim=8, sample_size=8, rope_axes_dim=(64, 64),
    )  # fmt: skip
    return diffusers.CogView4Pipeline(
        tokenizer=glm_tokenizer(), text_encoder=GlmModel(GlmConfig(**decoder_config())),
        vae=autoencoder(4, blocks=4), transformer=transformer,
        scheduler=flow_scheduler(use_dynamic_shifting=True, base_shift=0.25, max_shift=0.75, base_image_seq_len=256),
    )  # fmt: skip


FAMILIES: Mapping[str, Callable[[], Any]] = {
    "sdxl": sdxl,
    "sd15": sd15,
    "lcm": lcm,
    "sd3": sd3,
    "flux-schnell": flux_schnell,
    "flux-dev": flux_dev,
    "flux2": flux2,
    "flux2-klein": flux2_klein,
    "qwen-image": qwen_image,
    "z-image": z_image,
    "sana": sana,
    "sana-sprint": sana_sprint,
    "pixart-sigma": pixart_sigma,
    "hunyuan-image": hunyuan_image,
    "aura-flow": aura_flow,
    "lumina2": lumina2,
    "cogview4": cogview4,
}
"""Every family that has a toy; the last three are named by no table of the product."""
