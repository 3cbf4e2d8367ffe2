"""The index writer: images that requests ended with -> rows of what may be reused."""
