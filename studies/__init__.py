"""How the default of `adapt` was chosen: variants, the grids that compare them, and the acceptance test on held-out cells.

Run from a checkout; the installed package holds none of it:

    python -m studies run study-minus --root DATA --out results/minus
    python -m studies study results/minus
    python -m studies accept results/held-out
"""
