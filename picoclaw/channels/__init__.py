"""Where people reach the agent from: a channel posts what came in and sends what is to be told, and knows no agent."""
