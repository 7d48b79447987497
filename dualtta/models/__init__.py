"""Any classifier: its norm layers, its depth, its feature maps, its adapted weights."""
