"""The tiny procedural world beyond its words and layout: captions, images and a checker of facts."""
