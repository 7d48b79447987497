"""Continually changing corruptions: the difficulty of pairs of corruptions, and paths of constant difficulty through them.

After Press et al., "RDumb: A simple approach that questions our progress in continual test-time adaptation", NeurIPS 2023
(https://arxiv.org/abs/2306.05401). The dataset is `dualtta.data.datasets.ccc`.
"""
