"""The ways to look at a picture, one a file; `agents.models.discriminator` opens them."""
