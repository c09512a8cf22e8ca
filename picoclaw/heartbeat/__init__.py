"""What picoclaw looks after by itself: a checklist, when a model is asked about it, and what of the answer is told."""
