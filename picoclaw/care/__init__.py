"""Care over the years: where picoclaw is installed, its updates and the way back, its backups."""
