"""Edits of images that clients upload: forms, and the images in them."""
