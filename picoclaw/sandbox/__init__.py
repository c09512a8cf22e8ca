"""Where commands run: walls of the kernel's own, made by bubblewrap, in which a command can look and change nothing."""
