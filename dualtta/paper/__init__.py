"""The paper: its experiments, reported numbers, claims and theory. A plug-in like any other: nothing imports this package."""
