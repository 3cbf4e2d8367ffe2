"""Statistics of what was generated; they load no model."""
