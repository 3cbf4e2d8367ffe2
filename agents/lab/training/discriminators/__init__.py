"""Training of the scorer and the discriminators, which judge an image."""
