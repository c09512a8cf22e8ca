"""Matrix, over the client-server API by long polling: nothing listens, so it works behind any router."""
