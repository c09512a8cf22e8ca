"""Access to the public web: checked addresses, a pinned HTTP client, readable text, search."""
