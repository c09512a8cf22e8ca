"""Where people reach the agent from: a channel posts what came in and sends what is to be told, and knows no agent.

A Telegram message: `telegram.py` polls, `telegram_api.py` reads the update, `polled.py` posts it; then
`daemon/queue.py` puts it into the inbox (`store/inbox_outbox.py`) and has `agent/dispatcher.py` answer it. Matrix goes the same
way, terminals come over `daemon/socket.py`, the page over `dashboard/`.
"""
