"""Forward passes through `torch.compile`."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from dualtta.model.forward import Maps, Passes, feature_map, with_feature_map
from dualtta.views.base import Draws, FeatureView, InputView

if TYPE_CHECKING:
    from dualtta.model.forward import Net

BUCKET = 4  # samples: where samples are independent, compiled passes see multiples of it


def compile_passes(net: "Net", views: Iterable[FeatureView], size: int) -> None:
    """Compile the passes of a net, on its first batch of more than one sample."""
    if size < 2 or isinstance(net.passes, Compiled):
        return
    layers = {net.layer_of(view) for view in views}
    layer = layers.pop() if len(layers) == 1 else None
    fixed = size if net.coupled() else None  # where samples influence each other, every pass is of a whole batch
    net.passes = Compiled(net.model, layer, fixed, **net.speed.compile_options())


class Compiled(Passes):
    """A model's passes, each compiled once for every number of samples from two on.

    With `size`, they are compiled for batches of this size alone, since kernels that know their size are faster. A stream's
    shorter last batch then takes the eager passes, which is cheaper than compiling for it.
    """

    def __init__(self, model: nn.Module, layer: str | None, size: int | None = None, **options: Any) -> None:
        super().__init__(model)
        self._tap, self._layer, self._size = Tap(), layer, size
        if size is not None:
            options["dynamic"] = False
            fixed: dict[str, Any] = {"dynamic": False, "backend": options.get("backend", "inductor")}
            self._restyle, self._alter = torch.compile(super().restyle, **fixed), torch.compile(super().alter, **fixed)
        self._whole: Callable[[Tensor], tuple[Any, Any]] = torch.compile(self._run_whole, **options)
        self._from_layer: Callable[[Tensor, Tensor], Any] = torch.compile(self._run_from_layer, **options)

    def whole(self, x: Tensor, layers: Iterable[str]) -> tuple[Any, Maps]:
        wanted = set(layers)
        if not self._fits(x) or not wanted <= {self._layer} or wanted & self.overwritten:
            return super().whole(x, wanted)
        output, seen = self._run(self._whole, self._sized(x))
        return output, dict.fromkeys(wanted, seen)

    def from_layer(self, layer: str, few: Tensor, z: Tensor) -> Any:
        if not self._fits(z) or layer != self._layer:
            return super().from_layer(layer, few, z)
        return self._run(self._from_layer, few.clone(), self._sized(z))

    def alter(self, view: InputView, x: Tensor, draws: Draws, last: bool) -> Tensor:
        return (self._alter if x.shape[0] == self._size else super().alter)(view, x, draws, last)

    def restyle(
        self, view: FeatureView, z: Tensor, draws: Draws, layout: tuple[int, int], memory: Mapping[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        return (self._restyle if z.shape[0] == self._size else super().restyle)(view, z, draws, layout, memory)

    def padded(self, x: Tensor) -> Tensor:
        return padded(x, BUCKET) if self._size is None else x

    def _run_whole(self, x: Tensor) -> tuple[Any, Any]:
        self._tap.put = None
        output = self.model(x)
        if self._layer is None:
            return output, None
        # torch.compile does not compare hooks: reading `_layer` and `_tap` here keeps it from reusing another adapter's code.
        # The map is detached and forgotten here: what is left behind is an output of the compiled code too, whose backward
        # would begin with zeros for the whole map
        z, self._tap.seen = feature_map(self._layer, self._tap.seen, x.shape[0]).detach(), None
        return output, z

    def _run_from_layer(self, few: Tensor, z: Tensor) -> Any:
        self._tap.put = z
        output = self.model(few)
        self._tap.put = None
        return output

    def _fits(self, x: Tensor) -> bool:
        return len(x) >= 2 if self._size is None else len(x) == self._size

    def _sized(self, x: Tensor) -> Tensor:
        """Mark the number of samples as dynamic, unless the passes are compiled for one size."""
        if self._size is None:
            torch._dynamo.maybe_mark_dynamic(x, 0)
        return x

    def _run(self, compiled: Callable[..., Any], *inputs: Tensor) -> Any:
        with ExitStack() as stack:
            if self._layer:
                stack.enter_context(self.model.get_submodule(self._layer).register_forward_hook(self._tap))
            stack.callback(self._tap.clear)
            return compiled(*inputs)


class Tap:
    """A forward hook that replaces the feature map by the tensor in `put`, or else leaves the layer's output in `seen`.

    The compiled code is the same for both, whatever tensors flow through it.
    """

    def __init__(self) -> None:
        self.put: Tensor | None = None
        self.seen: Any = None

    def __call__(self, module: nn.Module, args: Any, output: Any) -> Any:
        if self.put is not None:
            return with_feature_map(output, self.put)
        self.seen = output
        return None

    def clear(self) -> None:
        self.put = self.seen = None


def padded(x: Tensor, multiple: int) -> Tensor:
    """The batch, filled up with copies of its first sample to a multiple of this size, so that few sizes occur.

    >>> padded(torch.arange(3), 4)
    tensor([0, 1, 2, 0])
    """
    lacking = -len(x) % multiple
    return torch.cat([x, x[:1].expand(lacking, *x.shape[1:])]) if lacking else x
