"""A classifier wired for adaptation: how its norm layers normalise, how its logits are read, how a feature map is changed."""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from dualtta.model.batchnorm import Normalising, Statistics
from dualtta.model.buffers import Buffers
from dualtta.model.depth import is_convolution, style_layer
from dualtta.model.layout import channel_axis, prefix_tokens
from dualtta.model.norms import batch_norms
from dualtta.model.passes import Compiled, Maps, Passes, WiringError, feature_map, padded, replaced
from dualtta.model.reading import logits_of
from dualtta.model.shortcuts import LONE, NONE, Shortcuts, find
from dualtta.speed import SPEEDS, Speed
from dualtta.views.base import Draws, FeatureView, InputView

SAFE = SPEEDS["safe"]
BUCKET = 4  # samples: where samples are independent, compiled passes see multiples of it


class Net:
    """Forwards batches, with everything but BatchNorm in evaluation mode; running statistics are never touched.

    `alone`: what a stream's batch of one is normalised by, as it has no batch to take statistics of.
    """

    def __init__(
        self,
        model: nn.Module,
        read: Callable[[Any], Tensor] | None,
        statistics: Statistics,
        layer: str | None,
        alone: Literal["source", "batch"] = "source",
        speed: Speed = SAFE,
    ) -> None:
        self.model, self.statistics, self.alone = model.eval(), statistics, alone
        self._read, self._layer = read, layer
        self._layouts: dict[tuple[str, torch.Size], tuple[int, int]] = {}
        self._found: dict[torch.Size, Shortcuts] = {}  # by the shape of a sample
        self._largest: dict[torch.Size, int] = {}  # the batch that this was found out on
        self.batch_norms = batch_norms(model)
        self._normalising = Normalising(self.batch_norms, statistics)
        self.speed, self.micro_batch = speed, speed.micro_batch
        if self.micro_batch and self.coupled():
            raise ValueError('micro_batch= needs independent samples, and BatchNorm mixes them: statistics="source" does not')
        self._plain = self._passes = Passes(model)
        self._size: int | None = None  # of the batches that passes are compiled for; None: any
        self._restyled, self._altered = _restyled, _altered
        self._overwrites: bool | None = None  # whether the model writes into its input; None: not seen yet
        self.forwarded = 0
        if layer is not None:
            self._module(layer)
        # on a GPU, GroupNorm takes twice as long channels-last
        self._channels_last = speed.channels_last and bool(self.batch_norms) and any(map(is_convolution, model.modules()))
        if self._channels_last:
            model.to(memory_format=torch.channels_last)

    def __call__(self, x: Tensor, *, lone: bool = False) -> Tensor:
        """Logits (B, C). `lone`: the stream's batch is a single sample."""
        return self.tapped(x, (), lone=lone)[0]

    def tapped(self, x: Tensor, names: Iterable[str], *, lone: bool = False) -> tuple[Tensor, Maps]:
        """Logits, and the feature maps that these layers gave on the way; one that is not to be had is left out."""
        if self.coupled(lone) and len(x) == 1:
            # one sample, twice: the same batch statistics, without torch's refusal of one value a channel
            self.forwarded -= 1
            return self._whole(torch.cat([x, x]), (), lone)[0][:1], {}
        if torch.is_grad_enabled() or not self.micro_batch:
            return self._whole(x, names, lone)
        logits, maps = zip(*(self._whole(part, names, lone) for part in self.parts(x)), strict=True)
        return torch.cat(logits), {name: torch.cat([m[name] for m in maps]) for name in names if all(name in m for m in maps)}

    def _whole(self, x: Tensor, names: Iterable[str], lone: bool) -> tuple[Tensor, Maps]:
        filled, size = self._filled(x), x.shape[0]
        with self._lent(filled) as own:
            output, maps = self._run(x, lone, self._passes.whole, self._laid_out(own), names)
        self.forwarded += size
        logits = logits_of(output, self._read, filled.shape[0], x.shape)
        if filled is x:
            return logits, maps
        return logits[:size], {name: z[:size] for name, z in maps.items()}

    def above(self, name: str, z: Tensor, x: Tensor, *, lone: bool = False) -> Tensor:
        """Logits (B, C) of the layers above `name`, given its output z (B, ...). The layers below see next to nothing."""
        fewest = 2 if self.coupled(lone) else 1  # BatchNorm refuses one value a channel
        few = self._laid_out(x[:fewest] if x.shape[0] > fewest else x)
        logits = []
        for part in self.parts(z):
            filled, size = self._filled(part), part.shape[0]
            with self._lent(few) as below:
                output = self._run(x, lone, self._passes.above, name, below, filled)
            self.forwarded += size
            part_logits = logits_of(output, self._read, filled.shape[0], x.shape)
            logits.append(part_logits if filled is part else part_logits[:size])
        return torch.cat(logits) if len(logits) > 1 else logits[0]

    def through(
        self, view: FeatureView, x: Tensor, draws: Draws, memory: Mapping[str, Tensor], *, lone: bool = False
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Logits with the feature map at the view's layer transformed on its way, and what the view observed."""
        name = self.layer_of(view)
        observed: dict[str, Tensor] | None = None

        def change(module: nn.Module, args: Any, output: Any) -> Any:
            nonlocal observed
            z = feature_map(name, output, len(own))
            seen = z[:1] if twice else z  # a single sample is one to the view, whatever BatchNorm is shown
            restyled, observed = view.transform(seen, draws, *self._layout(name, z), memory)
            return replaced(output, torch.cat([restyled, restyled]) if twice else restyled)

        twice = len(x) == 1 and self.coupled(lone)
        own = torch.cat([x, x]) if twice else x
        with self._module(name).register_forward_hook(change), self._lent(own) as lent:
            output, _ = self._run(x, lone, self._plain.whole, self._laid_out(lent), ())
        self.forwarded += len(x)
        if observed is None:
            raise ValueError(f"the forward pass does not reach the layer {name!r}: name another with layer=")
        return logits_of(output, self._read, len(own), x.shape)[: len(x)], observed

    def alter(self, view: InputView, x: Tensor, draws: Draws) -> Tensor:
        """What the view makes of a whole batch."""
        return (self._altered if x.shape[0] == self._size else _altered)(view, x, draws, self._channels_last)

    def restyle(
        self, view: FeatureView, z: Tensor, draws: Draws, memory: Mapping[str, Tensor], rows: Tensor | None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """What the view makes of the feature map of a whole batch, for these rows or all, and what it observed."""
        name = self.layer_of(view)
        layout = self._layout(name, z)
        if rows is None:
            transform = self._restyled if z.shape[0] == self._size else _restyled
            return transform(view, z, draws, *layout, memory)
        return view.transform_some(z, draws, *layout, memory, rows)

    def parts(self, x: Tensor) -> tuple[Tensor, ...]:
        """A batch as it is forwarded: whole, or in micro-batches."""
        return torch.split(x, self.micro_batch) if self.micro_batch else (x,)

    def in_graph(self, forward: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        """A forward for a gradient; of micro-batches only the inputs are kept, and the backward forwards them again."""
        if not self.micro_batch:
            return forward(*inputs)
        result: Tensor = checkpoint(forward, *inputs, use_reentrant=False, preserve_rng_state=False)
        return result

    def shortcuts(self, shape: torch.Size) -> Shortcuts:
        """What is known to be exact for batches of this shape, `examine` having been there."""
        if shape[0] == 1:
            return LONE if self.speed.shortcuts and not self.coupled(lone=True) else NONE
        return self._found.get(shape[1:], NONE)

    def examined(self, shape: torch.Size) -> bool:
        """Whether nothing more is to be found out: larger batches may mix samples that smaller ones do not."""
        settled = self._found.get(shape[1:]) == NONE or shape[0] <= self._largest.get(shape[1:], 0)
        return not self.speed.shortcuts or shape[0] == 1 or settled

    def examine(self, x: Tensor, views: Iterable[FeatureView]) -> None:
        """Find out on this batch which shortcuts are exact, for each shape of sample. Leaves no trace in the model."""
        names = {self.layer_of(view) for view in views}
        for name in names:
            self._module(name)  # a wrong name is said as such
        before, buffers, micro = self.forwarded, Buffers(self.model), self.micro_batch
        passes, self._passes = self._passes, self._plain
        self.micro_batch = None  # in parts, nobody would influence anybody
        try:
            with torch.no_grad(), torch.random.fork_rng([x.device] if x.is_cuda else []):
                found = find(self, x, names)
        finally:
            self.forwarded, self.micro_batch, self._passes = before, micro, passes
            buffers.assign({})
        if micro and not found.independent:
            raise ValueError("micro_batch= needs a model whose samples do not influence each other, and here they do")
        self._found[x.shape[1:]] = found & self._found.get(x.shape[1:], found)
        self._largest[x.shape[1:]] = len(x)

    def compile(self, views: Iterable[FeatureView], size: int) -> None:
        """From now on the passes are compiled, where that was asked for, on a first batch of this size."""
        if not self.speed.compile or size < 2 or isinstance(self._passes, Compiled):
            return
        names = {self.layer_of(view) for view in views}
        layer = names.pop() if len(names) == 1 else None
        if self.coupled():  # all passes are of whole batches
            fixed: dict[str, Any] = {"dynamic": False, "backend": self.speed.backend or "inductor"}
            self._size = size
            self._restyled, self._altered = torch.compile(_restyled, **fixed), torch.compile(_altered, **fixed)
        self._passes = Compiled(self.model, layer, self._size, **self.speed.compile_options())

    def coupled(self, lone: bool = False) -> bool:
        """Whether BatchNorm makes the samples of a batch influence each other."""
        return bool(self.batch_norms) and self.statistics not in ("source", 0) and not (lone and self.alone == "source")

    def normalising(self, lone: bool) -> AbstractContextManager[None]:
        """BatchNorm as it is in a pass, for what belongs to one: a backward may forward parts of the model again."""
        return self._normalising(lone=lone and self.alone == "source") if self.batch_norms else nullcontext()

    def layer_of(self, view: FeatureView) -> str:
        return view.layer or self.default_layer

    @property
    def default_layer(self) -> str:
        """The layer of feature views that name none."""
        if self._layer is None:
            self._layer = style_layer(self.model)
        return self._layer

    def _run(self, x: Tensor, lone: bool, a_pass: Callable[..., Any], *inputs: Any) -> Any:
        """A pass with the model in its mode and precision; what it raises on an input it cannot take is said in one line."""
        if self.model.training:  # somebody called train() on it
            self.model.eval()
        autocast = torch.autocast(x.device.type, torch.bfloat16) if self.speed.precision else nullcontext()
        try:
            with self.normalising(lone), autocast:
                return a_pass(*inputs)
        except (torch.OutOfMemoryError, WiringError):
            raise
        except (RuntimeError, AssertionError, ValueError, TypeError, IndexError, AttributeError) as error:
            # what torch's, timm's and home-made layers raise on a shape they cannot take
            said = str(error).strip().split("\n")[0]
            what = f"shape {tuple(x.shape)}, {x.dtype}, on {x.device}"
            way = " (one image is a batch of one: x[None])" if x.ndim == 3 else ""
            raise ValueError(f"the model failed on an input of {what}{way}: {said}") from error

    @contextmanager
    def _lent(self, x: Tensor) -> Iterator[Tensor]:
        """What a pass is given for x: x itself, once the model is known not to write into it, else a copy."""
        if self._overwrites is False:
            yield x
            return
        with torch.inference_mode(False):
            own = x.detach().clone()
        version = own._version
        yield own
        if self._overwrites is None:
            self._overwrites = own._version != version

    def _laid_out(self, x: Tensor) -> Tensor:
        return laid_out(x) if self._channels_last else x

    def _filled(self, x: Tensor) -> Tensor:
        """Compiled passes of independent samples see few sizes."""
        return padded(x, BUCKET) if isinstance(self._passes, Compiled) and not self.coupled() else x

    def _module(self, name: str) -> nn.Module:
        try:
            if name:
                return self.model.get_submodule(name)
        except AttributeError:
            pass
        modules = dict(self.model.named_modules())
        near = difflib.get_close_matches(name, modules, 3) or list(modules)[1:6]
        raise ValueError(f"the model has no layer {name!r}; near it: {', '.join(near)}")

    def _layout(self, name: str, z: Tensor) -> tuple[int, int]:
        key = (name, z.shape[1:])
        if key not in self._layouts:
            channel = channel_axis(self._module(name), z)
            self._layouts[key] = channel, prefix_tokens(self.model, z) if z.ndim == 3 and channel == -1 else 0
        return self._layouts[key]


def _restyled(
    view: FeatureView, z: Tensor, draws: Draws, channel: int, prefix: int, memory: Mapping[str, Tensor]
) -> tuple[Tensor, dict[str, Tensor]]:
    return view.transform(z, draws, channel, prefix, memory)


def _altered(view: InputView, x: Tensor, draws: Draws, channels_last: bool) -> Tensor:
    seen = view.transform(x, draws)
    return laid_out(seen) if channels_last else seen


def laid_out(x: Tensor) -> Tensor:
    """A batch of images channels-last; any other as it is."""
    return x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else x
