"""The public web: which addresses may be asked, fetching them, and the text of a page."""
