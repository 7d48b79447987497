"""The two ways through a model: whole, or from an inner layer upwards. As they are, or compiled."""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

Maps = dict[str, Tensor]


class WiringError(ValueError):
    """A layer that cannot be used; its message says what to do, so nobody wraps it in another."""


def feature_map(name: str, output: Any, size: int) -> Tensor:
    """What a layer gives for a batch of this size (B, ...); of several maps, as HRNet's stages give, the first."""
    z = output[0] if isinstance(output, tuple | list) and output else output
    if not isinstance(z, Tensor):
        raise WiringError(f"the layer {name!r} gives {type(z).__name__}, not a feature map: name another with layer=")
    if z.ndim < 2 or z.shape[0] != size:  # tokens first, as nn.MultiheadAttention has them unless told, or windows of images
        raise WiringError(
            f"the layer {name!r} gives {tuple(z.shape)} for a batch of {size}, not a feature map (B, ...): name another with "
            "layer=, such as the convolution that makes the patches"
        )
    return z


def replaced(output: Any, z: Tensor) -> Any:
    if isinstance(output, list):
        return [z, *output[1:]]
    return (z, *output[1:]) if isinstance(output, tuple) else z


class Passes:
    """A model's passes as they are."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._overwritten: set[str] = set()  # layers whose output a later one changes in place

    def whole(self, x: Tensor, names: Iterable[str]) -> tuple[Any, Maps]:
        """The output, and the feature maps that these layers gave on the way; one that is not to be had is left out."""
        maps: dict[str, list[tuple[Tensor, int]]] = {name: [] for name in names}
        if not maps:
            return self.model(x), {}

        def keep(name: str) -> Callable[[nn.Module, Any, Any], None]:
            def hook(module: nn.Module, args: Any, output: Any) -> None:
                z = feature_map(name, output, x.shape[0]).detach()
                maps[name].append((z.clone() if name in self._overwritten else z, z._version))

            return hook

        with ExitStack() as stack:
            for name in maps:
                stack.enter_context(self.model.get_submodule(name).register_forward_hook(keep(name)))  # taken off on leaving
            output = self.model(x)
        kept = {}
        for name, calls in maps.items():
            if len(calls) == 1:  # reached, and not several times
                z, version = calls[0]
                if name in self._overwritten or z._version == version:
                    kept[name] = z
                else:
                    self._overwritten.add(name)  # from now on it is copied in time
        return output, kept

    def above(self, name: str, few: Tensor, z: Tensor) -> Any:
        """The output of the layers above `name`, given its output z (B, ...); the layers below see few samples."""
        with self.model.get_submodule(name).register_forward_hook(lambda module, args, output: replaced(output, z)):
            return self.model(few)


class Tap:
    """A hook that takes tensors: what it is given in `put` it puts in place, else it leaves what it finds in `seen`.

    So a compiled pass sees the same code whatever flows through it.
    """

    def __init__(self) -> None:
        self.put: Tensor | None = None
        self.seen: Any = None

    def __call__(self, module: nn.Module, args: Any, output: Any) -> Any:
        if self.put is not None:
            return replaced(output, self.put)
        self.seen = output
        return None


class Compiled(Passes):
    """A model's passes through `torch.compile`, each compiled once for every number of samples from two on.

    `size`: for batches of this size alone. Kernels that know their size are faster, and where samples influence each other all
    passes are of whole batches; a stream's shorter last batch then goes as it is, which is cheaper than compiling for it.
    """

    def __init__(self, model: nn.Module, layer: str | None, size: int | None = None, **options: Any) -> None:
        super().__init__(model)
        self._tap, self._layer, self._size = Tap(), layer, size
        if size is not None:
            options["dynamic"] = False
        self._whole: Callable[[Tensor], tuple[Any, Any]] = torch.compile(self._run_whole, **options)
        self._above: Callable[[Tensor, Tensor], Any] = torch.compile(self._run_above, **options)

    def _run_whole(self, x: Tensor) -> tuple[Any, Any]:
        self._tap.put = None
        output = self.model(x)
        if self._layer is None:
            return output, None
        # read here so that another adapter's code is not taken for this one's: hooks are not compared. Detached and forgotten
        # here: what is left behind is an output too, and the backward would begin with zeros for the whole map
        z, self._tap.seen = feature_map(self._layer, self._tap.seen, x.shape[0]).detach(), None
        return output, z

    def _run_above(self, few: Tensor, z: Tensor) -> Any:
        self._tap.put = z
        output = self.model(few)
        self._tap.put = None
        return output

    def whole(self, x: Tensor, names: Iterable[str]) -> tuple[Any, Maps]:
        wanted = set(names)
        if not self._takes(x) or not wanted <= {self._layer} or wanted & self._overwritten:
            return super().whole(x, wanted)
        output, seen = self._run(self._whole, self._sized(x))
        return output, dict.fromkeys(wanted, seen)

    def above(self, name: str, few: Tensor, z: Tensor) -> Any:
        if not self._takes(z) or name != self._layer:
            return super().above(name, few, z)
        return self._run(self._above, few.clone(), self._sized(z))

    def _takes(self, x: Tensor) -> bool:
        return len(x) >= 2 if self._size is None else len(x) == self._size

    def _sized(self, x: Tensor) -> Tensor:
        """Unless it is fixed, the number of samples is no constant to compile in."""
        if self._size is None:
            torch._dynamo.maybe_mark_dynamic(x, 0)
        return x

    def _run(self, compiled: Callable[..., Any], *inputs: Tensor) -> Any:
        with ExitStack() as stack:
            if self._layer:
                stack.enter_context(self.model.get_submodule(self._layer).register_forward_hook(self._tap))
            stack.callback(self._forget)
            return compiled(*inputs)

    def _forget(self) -> None:
        self._tap.put = self._tap.seen = None


def padded(x: Tensor, to: int) -> Tensor:
    """The batch, filled up with its first sample to a multiple, so that few sizes occur.

    >>> padded(torch.arange(3), 4)
    tensor([0, 1, 2, 0])
    """
    lacking = -len(x) % to
    return torch.cat([x, x[:1].expand(lacking, *x.shape[1:])]) if lacking else x
