"""The loop, what a model is told, compaction, commands, sub-agents."""
