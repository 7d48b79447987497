"""Numbers that the host wants from the device: asked for at once, heard when needed, so that nobody waits in between."""

from typing import Any

import torch
from torch import Tensor


class Asked:
    """A few numbers on their way to the host.

    >>> Asked(torch.tensor([1, 2])).hear()
    [1, 2]
    """

    def __init__(self, numbers: Tensor) -> None:
        self._numbers, self._arrived = numbers, None
        if numbers.is_cuda:
            self._numbers = numbers.detach().to("cpu", non_blocking=True)
            self._arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._arrived.record()

    def hear(self) -> Any:
        """As Python has them: a number, or lists of them."""
        if self._arrived:
            self._arrived.synchronize()
        return self._numbers.tolist()
