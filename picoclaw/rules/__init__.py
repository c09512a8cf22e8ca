"""Rules that run without a model: how they are written, when they fire, and what they do then."""
