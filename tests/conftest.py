"""One CPU thread a worker: the tests' nets are tiny, and workers fill the cores."""

import torch

torch.set_num_threads(1)
