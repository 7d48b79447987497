"""`dualtta data ...`: what the command line runs. Everything else is imported late."""

from collections.abc import Callable


def check(path: str, json: bool = False) -> int:
    """Tell which dataset a folder holds, whether it is whole, and what to do; reads every image, writes nothing.

    Args:
        path: The folder.
        json: Print {"path", "ok", "datasets"} instead of tables.
    """
    from dualtta.data.show import show_check

    return show_check(path, json)


def prepare(src: str, dst: str) -> int:
    """Turn archives as published (or a folder of them) into a folder that the datasets are read from.

    Args:
        src: A zip or tar archive, or a folder with archives, with MNIST's idx files or with CIFAR-10's batches.
        dst: The folder to make; it must not be there yet.
    """
    from dualtta.data.show import show_prepare

    return show_prepare(src, dst)


COMMANDS: dict[str, Callable[..., int]] = {"check": check, "prepare": prepare}
