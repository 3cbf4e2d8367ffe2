"""Which images the index writer takes in, in which order it checks, and what it keeps account of."""
