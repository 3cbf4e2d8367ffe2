"""Fits classifiers of prompts, one kind a file, that `agents.classifier.predictors` serves."""
