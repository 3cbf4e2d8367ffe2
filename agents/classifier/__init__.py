"""The classifier role: how hard a prompt is and of which class."""
