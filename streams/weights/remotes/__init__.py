"""Where component weights come from: the port, S3 and a folder."""
