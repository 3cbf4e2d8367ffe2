"""The page of an evaluation and its plots."""
