"""Whether a plan is due or stands, and what of it the next one keeps."""
