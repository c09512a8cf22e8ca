"""The page: a chat and a dashboard on the local network, served by the daemon itself."""
