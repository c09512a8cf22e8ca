"""Install, update, backup, check, repair, doctor."""
