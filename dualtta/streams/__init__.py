"""The order in which test samples come."""
