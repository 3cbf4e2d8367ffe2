"""Catalogs, profiles and observations from text into `planner`'s values: closed tables, read by pydantic."""
