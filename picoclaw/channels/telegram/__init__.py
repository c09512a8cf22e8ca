"""Telegram, over the Bot API by long polling: nothing listens, so it works behind any router."""
