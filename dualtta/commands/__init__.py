"""What the command line runs, a file a command."""
