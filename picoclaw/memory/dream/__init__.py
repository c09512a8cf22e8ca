"""What is done with the memory at night and between turns, with a model and without."""
