"""The ways to look at an image, one a file; `agents.models.discriminator` opens them."""
