"""What is remembered: Markdown files that the owner can open."""
