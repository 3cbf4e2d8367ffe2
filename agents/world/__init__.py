"""The tiny procedural world: captions, pictures, and a checker of which stated facts a picture shows."""
