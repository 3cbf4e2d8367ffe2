"""What the papers found, asked again in simulation: `pochade bench papers`. One file a question."""
