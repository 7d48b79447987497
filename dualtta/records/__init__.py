"""Records of runs on disk. Nothing here imports torch."""
