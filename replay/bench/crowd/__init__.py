"""The effect of some clients on the others: one deployment, measured calm, then crowded."""
