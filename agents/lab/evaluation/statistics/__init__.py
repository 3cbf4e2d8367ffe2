"""The statistics of an evaluation: each reads `Evaluation`, loads no model, and gives a part of evaluate.json."""
