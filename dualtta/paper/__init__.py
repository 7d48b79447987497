"""The paper's experiments, numbers, claims and theory."""
