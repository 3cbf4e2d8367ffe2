"""Comparison of prompts for approximate caching: their facts and their vectors."""
