"""How many workers each variant wants, and which workers are taken for it."""
