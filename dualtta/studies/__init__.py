"""How the default was chosen."""
