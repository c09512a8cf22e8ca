"""The deterministic half: what happens by the clock, without a model and without the network."""
