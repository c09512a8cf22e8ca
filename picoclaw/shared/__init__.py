"""What several boards share: one store of agents, files, memory, conversations and costs, and its synchronisation."""
