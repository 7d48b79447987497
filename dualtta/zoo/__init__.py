"""Models by name, with their weights and preprocessing."""
