"""A classifier wired for adaptation: how its norm layers normalise, how its logits are read, how a feature map is changed."""

import difflib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from dualtta.models.depth import style_layer
from dualtta.models.layout import channel_axis, prefix_tokens
from dualtta.models.norms import batch_norms
from dualtta.views.base import Draws, FeatureView

Statistics = Literal["batch", "source"] | float  # a number: the share of the batch in a blend with the source's


class WiringError(ValueError):
    """A layer that cannot be used; its message says what to do, so nobody wraps it in another."""


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
    ) -> None:
        share = isinstance(statistics, float | int) and not isinstance(statistics, bool) and 0 <= statistics <= 1
        if not share and (not isinstance(statistics, str) or statistics not in ("batch", "source")):
            raise ValueError(f'statistics must be "batch", "source" or a share of the batch from 0 to 1, not {statistics!r}')
        self.model, self.statistics, self.alone = model.eval(), statistics, alone
        self._read, self._layer = read, layer
        self._layouts: dict[tuple[str, torch.Size], tuple[int, int]] = {}
        self.batch_norms = batch_norms(model)
        self.forwarded = 0
        if layer is not None:
            self._module(layer)

    def __call__(self, x: Tensor, *, lone: bool = False) -> Tensor:
        """Logits (B, C). `lone`: the stream's batch is a single sample."""
        lone = lone and self.alone == "source"
        single = len(x) == 1 and not lone and bool(self.batch_norms)
        if self.model.training:  # somebody called train() on it
            self.model.eval()
        with self._normalising(lone):
            # one sample, twice: the same batch statistics, without torch's refusal of one value a channel
            output = self._output(torch.cat([x, x]) if single else x)
        logits = self._checked(output, 2 if single else len(x), x)
        self.forwarded += len(x)
        return logits[: len(x)]

    def through(
        self, view: FeatureView, x: Tensor, draws: Draws, memory: Mapping[str, Tensor], *, lone: bool = False
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Logits with the feature map at the view's layer transformed on its way, and what the view observed."""
        name = view.layer or self._layer or self.default_layer
        observed: dict[str, Tensor] | None = None

        def change(module: nn.Module, args: Any, output: Any) -> Any:
            nonlocal observed
            z = output[0] if isinstance(output, tuple) else output
            if not isinstance(z, Tensor):
                raise WiringError(f"the layer {name!r} gives {type(z).__name__}, not a feature map: name another with layer=")
            restyled, observed = view.transform(z, draws, *self._layout(name, module, z), memory)
            return (restyled, *output[1:]) if isinstance(output, tuple) else restyled

        handle = self._module(name).register_forward_hook(change)
        try:
            logits = self(x, lone=lone)
        finally:
            handle.remove()
        if observed is None:
            raise ValueError(f"the forward pass does not reach the layer {name!r}: name another with layer=")
        return logits, observed

    @property
    def default_layer(self) -> str:
        """The layer of feature views that name none."""
        if self._layer is None:
            self._layer = style_layer(self.model)
        return self._layer

    def _output(self, x: Tensor) -> Any:
        try:
            return self.model(x)
        except (torch.OutOfMemoryError, WiringError):
            raise
        except (RuntimeError, AssertionError, ValueError, TypeError, IndexError, AttributeError) as error:
            # what torch's, timm's and home-made layers raise on a shape they cannot take
            said = str(error).strip().split("\n")[0]
            what = f"shape {tuple(x.shape)}, {x.dtype}, on {x.device}"
            way = " (one image is a batch of one: x[None])" if x.ndim == 3 else ""
            raise ValueError(f"the model failed on an input of {what}{way}: {said}") from error

    def _module(self, name: str) -> nn.Module:
        modules: dict[str, nn.Module] = dict(self.model.named_modules())
        if name not in modules or not name:
            near = difflib.get_close_matches(name, modules, 3) or list(modules)[1:6]
            raise ValueError(f"the model has no layer {name!r}; near it: {', '.join(near)}")
        return modules[name]

    def _layout(self, name: str, module: nn.Module, z: Tensor) -> tuple[int, int]:
        key = (name, z.shape[1:])
        if key not in self._layouts:
            channel = channel_axis(module, z)
            self._layouts[key] = channel, prefix_tokens(self.model, z) if z.ndim == 3 and channel == -1 else 0
        return self._layouts[key]

    @contextmanager
    def _normalising(self, lone: bool) -> Iterator[None]:
        """BatchNorm by the chosen statistics while this lasts. A stream's batch of one goes by the source's."""
        batch = self.statistics == "batch" and not lone
        self._set_mode(batch)  # at every call: whoever holds the model may have called eval() on it
        try:
            with ExitStack() as stack:
                if isinstance(self.statistics, float | int) and not lone:
                    for norm in self.batch_norms:
                        stack.enter_context(_blended(norm, float(self.statistics)))
                yield
        finally:
            if lone:
                self._set_mode(self.statistics == "batch")  # so that the model itself predicts as the adapter does

    def _set_mode(self, batch: bool) -> None:
        for norm in self.batch_norms:
            norm.training = batch
            norm.track_running_stats = not batch  # with False, training mode leaves the running statistics alone

    def _checked(self, output: Any, size: int, x: Tensor) -> Tensor:
        logits = self._read(output) if self._read else output
        if not isinstance(logits, Tensor):
            raise ValueError(
                f"the model returns {type(logits).__name__}, not logits: pass logits=, a function of its output, "
                "such as logits=lambda out: out['logits']"
            )
        if logits.ndim != 2 or len(logits) != size:
            raise ValueError(
                f"for a batch of shape {tuple(x.shape)} the model returns shape {tuple(logits.shape)}, not (B, C) logits: "
                "give a batch (one image: x[None]), or pass logits=, a function of the model's output"
            )
        if logits.shape[1] < 2:
            raise ValueError(
                "the model returns one logit a sample; entropy needs two classes or more. A binary model with one logit z: "
                "logits=lambda z: torch.cat([torch.zeros_like(z), z], 1)"
            )
        return logits


@contextmanager
def _blended(norm: _BatchNorm, share: float) -> Iterator[None]:
    """Normalise by (1 - share) of the running statistics and `share` of the batch's; no gradient flows through them."""
    mean, var = norm.running_mean, norm.running_var
    if mean is None or var is None:
        yield  # it has only ever normalised by the batch
        return

    def blend(module: nn.Module, args: tuple[Tensor, ...]) -> None:
        others = tuple(i for i in range(args[0].ndim) if i != 1)
        batch_var, batch_mean = torch.var_mean(args[0].detach().to(mean.dtype), others, correction=0)
        norm.running_mean, norm.running_var = torch.lerp(mean, batch_mean, share), torch.lerp(var, batch_var, share)

    handle = norm.register_forward_pre_hook(blend)
    try:
        yield
    finally:
        handle.remove()
        norm.running_mean, norm.running_var = mean, var
