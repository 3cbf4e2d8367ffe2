"""What becomes of the images that workers have generated."""
