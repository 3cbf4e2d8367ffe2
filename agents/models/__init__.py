"""The learned parts that serve: what judges prompts and images of the tiny world."""
