"""The discriminator role: whether an image is the answer to its request."""
