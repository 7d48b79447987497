"""Grids of cells: what runs, where, and how it is evaluated."""
