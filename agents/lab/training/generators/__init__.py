"""Training of the diffusion models that make the images."""
