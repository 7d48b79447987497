"""Where a model runs."""

import torch


def pick_device(name: str | None = None) -> torch.device:
    """The device of this name, or the first GPU where there is one, or the processor; a ValueError where it is not there.

    >>> pick_device("cpu")
    device(type='cpu')
    """
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).cpu()
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # torch raises all of these
        raise ValueError(f"the device {name!r} cannot be used ({str(error).splitlines()[0]}): try cpu, cuda or mps") from error
    return device
