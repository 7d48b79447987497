"""Models by name, their weights and preprocessing."""
