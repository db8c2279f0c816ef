"""The built-in models, and the builder of any."""
