"""The catalog as a value: variants, discriminators and classifiers, and everything that was measured of them."""
