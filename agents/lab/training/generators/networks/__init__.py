"""What the training steps share: networks, batches of scenes, the diffusion loss, sampling and the tokenizer."""
