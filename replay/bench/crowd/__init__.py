"""What some clients cost the others: one deployment, measured calm, then crowded."""
