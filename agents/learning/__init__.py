"""Learning judges for anybody's models, from prompts, images and labels."""
