"""ARGUS's pieces: how many workers on which approximation level, which prompts go there, when the strategy changes."""
