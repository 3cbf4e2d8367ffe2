"""The worker role: makes the images of the jobs of one variant."""
