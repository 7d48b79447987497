"""Choice of the device."""

import torch


def pick_device(name: str | None = None) -> torch.device:
    """The device of this name; by default the first GPU, or the CPU. A ValueError if it cannot be used.

    >>> pick_device("cpu")
    device(type='cpu')
    """
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).cpu()
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # depending on the device
        raise ValueError(f"the device {name!r} cannot be used ({str(error).splitlines()[0]}): try cpu, cuda or mps") from error
    return device
