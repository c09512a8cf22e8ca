"""The web, read by somebody who trusts none of it: which addresses may be asked, how, and what a page says."""
