"""What serving with approximate caching saves, loses and costs, measured on fresh prompts: `pochade bench reuse`."""
