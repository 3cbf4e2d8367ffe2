"""Weights of a chaos run with components: their remote, points at which workers are killed, checks of images."""
