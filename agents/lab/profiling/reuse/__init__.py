"""Measures approximate caching of a level: what beginning from earlier images saves, and what it loses."""
