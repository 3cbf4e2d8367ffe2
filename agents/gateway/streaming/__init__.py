"""Answers by server-sent events: the images of a request, and the course of a prediction."""
