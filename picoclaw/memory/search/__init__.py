"""How a question becomes hits: words, vectors, days, and their fusion."""
