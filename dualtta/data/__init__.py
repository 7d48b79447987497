"""Data on disk: datasets, and the tools that prepare them."""
