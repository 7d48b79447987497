"""How a batch is forwarded: the model's mode and precision, micro-batches, feature maps, reading logits, errors in one line."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from dualtta.model import errors
from dualtta.model.batchnorm import BatchNormStatistics, Statistics
from dualtta.model.depth import is_convolution
from dualtta.model.features import channel_axis, find_layer, prefix_tokens
from dualtta.model.norms import batch_norms
from dualtta.model.shortcuts import ALL, NONE, Shortcuts
from dualtta.speed import SPEEDS, Speed
from dualtta.views.base import Draws, FeatureView, InputView

Maps = dict[str, Tensor]
SAFE = SPEEDS["safe"]


class Net:
    """Forwards batches with BatchNorm by the chosen statistics and everything else in evaluation mode.

    `single` in its methods says that the stream's batch is a single sample. Unless `single_by_source` is False, BatchNorm then
    normalises by the source's statistics, since one sample has none of its own.
    """

    def __init__(
        self,
        model: nn.Module,
        read: Callable[[Any], Tensor] | None,
        statistics: Statistics,
        layer: str | None,
        single_by_source: bool = True,
        speed: Speed = SAFE,
    ) -> None:
        self.model, self.single_by_source = model.eval(), single_by_source
        self.layer = layer  # of feature views that name none
        self.batch_norms = batch_norms(model)
        self.speed, self.micro_batch = speed, speed.micro_batch
        self.eager = self.passes = Passes(model)  # `compile_passes` replaces the second
        # by coupling: exact shortcuts by the shape of a sample, and the size of the batch that they were found on
        self._found: dict[bool, tuple[dict[torch.Size, Shortcuts], dict[torch.Size, int]]] = {}
        self.forwarded = 0  # samples
        self._read = read
        self._batch_norm = BatchNormStatistics(self.batch_norms, statistics)
        self.use_statistics(statistics)
        self._layouts: dict[tuple[str, torch.Size], tuple[int, int]] = {}
        self._copies_input = True  # until a pass shows that the model does not write into its input
        self._input_checked = False
        if self.micro_batch and self.coupled():
            raise ValueError('micro_batch= needs independent samples, and BatchNorm mixes them: statistics="source" does not')
        if layer is not None:
            find_layer(model, layer)
        # on a GPU, GroupNorm takes twice as long channels-last
        self._channels_last = speed.channels_last and bool(self.batch_norms) and any(map(is_convolution, model.modules()))
        if self._channels_last:
            model.to(memory_format=torch.channels_last)

    def __call__(self, x: Tensor, *, single: bool = False) -> Tensor:
        """Logits (B, C)."""
        return self.forward_with_features(x, (), single=single)[0]

    def forward_with_features(self, x: Tensor, layers: Iterable[str], *, single: bool = False) -> tuple[Tensor, Maps]:
        """Logits (B, C) and the feature maps of these layers; a layer that is not reached exactly once is left out."""
        if self.coupled(single) and len(x) == 1:
            # the sample twice has the same batch statistics, and torch refuses one value a channel
            self.forwarded -= 1
            return self._forward(torch.cat([x, x]), (), single)[0][:1], {}
        if torch.is_grad_enabled() or not self.micro_batch:
            return self._forward(x, layers, single)
        logits, maps = zip(*(self._forward(part, layers, single) for part in self.parts(x)), strict=True)
        whole = [layer for layer in layers if all(layer in m for m in maps)]
        return torch.cat(logits), {layer: torch.cat([m[layer] for m in maps]) for layer in whole}

    def forward_from(self, layer: str, z: Tensor, x: Tensor, *, single: bool = False) -> Tensor:
        """Logits (B, C) of the layers above `layer`, given its output z (B, ...); the layers below forward a sample or two."""
        few = self._laid_out(x[: 2 if self.coupled(single) else 1])  # BatchNorm refuses one value a channel
        logits = []
        for part in self.parts(z):
            filled, size = self._filled(part), part.shape[0]
            with self._protected(few) as below:
                output = self._run(x, single, self.passes.from_layer, layer, below, filled)
            self.forwarded += size
            part_logits = read_logits(output, self._read, filled.shape[0], x.shape)
            logits.append(part_logits if filled is part else part_logits[:size])
        return torch.cat(logits) if len(logits) > 1 else logits[0]

    def forward_with_view(
        self, view: FeatureView, x: Tensor, draws: Draws, memory: Mapping[str, Tensor], *, single: bool = False
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Logits (B, C) of a whole forward with the feature map transformed by the view, and what the view remembers."""
        layer = self.layer_of(view)
        observed: dict[str, Tensor] | None = None

        def transform(module: nn.Module, args: Any, output: Any) -> Any:
            nonlocal observed
            z = feature_map(layer, output, len(inputs))
            viewed, observed = view.transform(z[:1] if twice else z, draws, *self._layout(layer, z), memory)
            return with_feature_map(output, torch.cat([viewed, viewed]) if twice else viewed)

        twice = len(x) == 1 and self.coupled(single)  # for BatchNorm alone: the view gets the one sample
        inputs = torch.cat([x, x]) if twice else x
        with find_layer(self.model, layer).register_forward_hook(transform), self._protected(inputs) as given:
            output, _ = self._run(x, single, self.eager.whole, self._laid_out(given), ())
        self.forwarded += len(x)
        if observed is None:
            raise ValueError(f"the forward pass does not reach the layer {layer!r}: name another with layer=")
        return read_logits(output, self._read, len(inputs), x.shape)[: len(x)], observed

    def alter(self, view: InputView, x: Tensor, draws: Draws) -> Tensor:
        """A whole batch, transformed by the view."""
        return self.passes.alter(view, x, draws, self._channels_last)

    def restyle(
        self, view: FeatureView, z: Tensor, draws: Draws, memory: Mapping[str, Tensor], rows: Tensor | None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The feature map of a whole batch, transformed by the view for these rows or all, and what the view remembers."""
        layout = self._layout(self.layer_of(view), z)
        if rows is None:
            return self.passes.restyle(view, z, draws, layout, memory)
        return view.transform_some(z, draws, *layout, memory, rows)

    def parts(self, x: Tensor) -> tuple[Tensor, ...]:
        """A batch as it is forwarded: whole, or in micro-batches."""
        return torch.split(x, self.micro_batch) if self.micro_batch else (x,)

    def in_graph(self, forward: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        """A forward for a gradient. Of a micro-batch only the inputs are kept, and the backward forwards it again."""
        if not self.micro_batch:
            return forward(*inputs)
        result: Tensor = checkpoint(forward, *inputs, use_reentrant=False, preserve_rng_state=False)
        return result

    def use_statistics(self, statistics: Statistics, scale: float = 1.0) -> None:
        """Normalise BatchNorm by these statistics from now on, with the share of a blend times `scale`."""
        self.statistics = statistics
        self._batch_norm.use(statistics, scale)
        self.exact, self.examined_on = self._found.setdefault(self.coupled(), ({}, {}))

    def coupled(self, single: bool = False) -> bool:
        """Whether BatchNorm makes the samples of a batch influence each other."""
        return bool(self.batch_norms) and self.statistics not in ("source", 0) and not (single and self.single_by_source)

    def shortcuts(self, shape: torch.Size) -> Shortcuts:
        """The shortcuts that are known to be exact for batches of this shape."""
        if shape[0] == 1:  # no other sample can influence it
            return ALL if self.speed.shortcuts and not self.coupled(single=True) else NONE
        return self.exact.get(shape[1:], NONE)

    def examined(self, shape: torch.Size) -> bool:
        """Whether `find_shortcuts` has nothing more to find: larger batches may mix samples that smaller ones do not."""
        settled = self.exact.get(shape[1:]) == NONE or shape[0] <= self.examined_on.get(shape[1:], 0)
        return not self.speed.shortcuts or shape[0] == 1 or settled

    def batch_norm_mode(self, single: bool) -> AbstractContextManager[None]:
        """BatchNorm in the mode of a forward pass. Backwards need it too: a checkpointed layer is forwarded there again."""
        return self._batch_norm.applied(single=single and self.single_by_source) if self.batch_norms else nullcontext()

    def layer_of(self, view: FeatureView) -> str:
        layer = view.layer or self.layer
        assert layer, "adapt() chooses it"
        return layer

    def _forward(self, x: Tensor, layers: Iterable[str], single: bool) -> tuple[Tensor, Maps]:
        filled, size = self._filled(x), x.shape[0]
        with self._protected(filled) as given:
            output, maps = self._run(x, single, self.passes.whole, self._laid_out(given), layers)
        self.forwarded += size
        logits = read_logits(output, self._read, filled.shape[0], x.shape)
        return (logits, maps) if filled is x else (logits[:size], {layer: z[:size] for layer, z in maps.items()})

    def _run(self, x: Tensor, single: bool, run: Callable[..., Any], *inputs: Any) -> Any:
        """Run a pass with the model in its mode and precision; an input that it cannot take is an error of one line."""
        if self.model.training:  # the user called train() on it
            self.model.eval()
        autocast = torch.autocast(x.device.type, torch.bfloat16) if self.speed.precision else nullcontext()
        try:
            with self.batch_norm_mode(single), autocast:
                return run(*inputs)
        except (torch.OutOfMemoryError, errors.WiringError):
            raise
        except (RuntimeError, AssertionError, ValueError, TypeError, IndexError, AttributeError) as error:
            raise errors.forward_failed(x, error) from error  # of layers on a shape that they cannot take

    @contextmanager
    def _protected(self, x: Tensor) -> Iterator[Tensor]:
        """The input of a pass: a copy of x, unless an earlier pass has shown that the model does not write into its input."""
        if not self._copies_input:
            yield x
            return
        with torch.inference_mode(False):
            copy = x.detach().clone()
        version = copy._version
        yield copy
        if not self._input_checked:
            self._input_checked, self._copies_input = True, copy._version != version

    def _laid_out(self, x: Tensor) -> Tensor:
        return channels_last(x) if self._channels_last else x

    def _filled(self, x: Tensor) -> Tensor:
        return x if self.coupled() else self.passes.padded(x)

    def _layout(self, layer: str, z: Tensor) -> tuple[int, int]:
        """The channel axis of a layer's feature map, and its number of tokens that are no patches."""
        key = (layer, z.shape[1:])
        if key not in self._layouts:
            channel = channel_axis(find_layer(self.model, layer), z)
            self._layouts[key] = channel, prefix_tokens(self.model, z) if z.ndim == 3 and channel == -1 else 0
        return self._layouts[key]


class Passes:
    """The ways through a model: whole, or from an inner layer up; `Compiled` has the same ones compiled."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.overwritten: set[str] = set()  # layers whose output a later layer changes in place

    def whole(self, x: Tensor, layers: Iterable[str]) -> tuple[Any, Maps]:
        """The model's output, and the feature maps of these layers; a layer that is not reached exactly once is left out."""
        maps: dict[str, list[tuple[Tensor, int]]] = {layer: [] for layer in layers}
        if not maps:
            return self.model(x), {}

        def keep(layer: str) -> Callable[[nn.Module, Any, Any], None]:
            def hook(module: nn.Module, args: Any, output: Any) -> None:
                z = feature_map(layer, output, x.shape[0]).detach()
                maps[layer].append((z.clone() if layer in self.overwritten else z, z._version))

            return hook

        with ExitStack() as stack:  # which removes the hooks
            for layer in maps:
                stack.enter_context(self.model.get_submodule(layer).register_forward_hook(keep(layer)))
            output = self.model(x)
        kept = {}
        for layer, calls in maps.items():
            if len(calls) == 1:
                z, version = calls[0]
                if layer in self.overwritten or z._version == version:
                    kept[layer] = z
                else:
                    self.overwritten.add(layer)  # from now on it is copied before it is changed
        return output, kept

    def from_layer(self, layer: str, few: Tensor, z: Tensor) -> Any:
        """The model's output, given the output z (B, ...) of a layer; the layers below forward a few samples."""
        with self.model.get_submodule(layer).register_forward_hook(lambda module, args, output: with_feature_map(output, z)):
            return self.model(few)

    def alter(self, view: InputView, x: Tensor, draws: Draws, last: bool) -> Tensor:
        altered = view.transform(x, draws)
        return channels_last(altered) if last else altered

    def restyle(
        self, view: FeatureView, z: Tensor, draws: Draws, layout: tuple[int, int], memory: Mapping[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        return view.transform(z, draws, *layout, memory)

    def padded(self, x: Tensor) -> Tensor:
        """The batch as passes of independent samples get it."""
        return x


def read_logits(output: Any, read: Callable[[Any], Tensor] | None, size: int, shape: torch.Size) -> Tensor:
    """The logits (B, C) in a model's output for a batch of this size and shape."""
    try:
        logits = read(output) if read else output
    except (LookupError, AttributeError, TypeError) as error:
        raise errors.unreadable(output, error) from error
    if not isinstance(logits, Tensor) or not logits.is_floating_point():
        raise errors.not_a_float_tensor(logits)
    if logits.ndim != 2 or logits.shape[0] != size or logits.shape[1] < 2:
        raise errors.not_logits(logits, size, shape)
    return logits


def feature_map(layer: str, output: Any, size: int) -> Tensor:
    """The feature map (B, ...) in the output of a layer for a batch of this size; the first where the layer gives several."""
    z = output[0] if isinstance(output, tuple | list) and output else output
    if not isinstance(z, Tensor) or z.ndim < 2 or z.shape[0] != size:
        raise errors.not_a_feature_map(layer, z, size)
    return z


def with_feature_map(output: Any, z: Tensor) -> Any:
    """The output of a layer with z in place of its feature map."""
    if isinstance(output, list):
        return [z, *output[1:]]
    return (z, *output[1:]) if isinstance(output, tuple) else z


def channels_last(x: Tensor) -> Tensor:
    """A batch of images in the channels-last layout; any other batch as it is."""
    return x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else x
