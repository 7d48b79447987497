import pytest
import torch
import torch._dynamo.testing
from torch import nn

import dualtta
from dualtta.model.shortcuts import Shortcuts
from dualtta.testing import run, small_net, small_stream


class Centred(nn.Module):
    """Samples that influence each other, by no BatchNorm."""

    def forward(self, x):
        return x - 0.5 * x.mean(0, keepdim=True)


class Skipping(nn.Module):
    """What the first stage saw reaches the head past the layer of the style view."""

    def __init__(self):
        super().__init__()
        self.net, self.short = small_net(), nn.Linear(3, 10)

    def forward(self, x):
        return self.net(x) + self.short(x.mean((2, 3)))


class Twice(nn.Module):
    """The layer of the style view is used twice."""

    def __init__(self):
        super().__init__()
        self.stem, self.same, self.head = (
            nn.Conv2d(3, 8, 3),
            nn.Sequential(nn.Conv2d(8, 8, 3), nn.GroupNorm(2, 8)),
            nn.Linear(8, 10),
        )

    def forward(self, x):
        return self.head(self.same(self.same(self.stem(x))).mean((2, 3)) * 9)


class Fixed(nn.Module):
    """Takes batches of twelve and no others."""

    def __init__(self):
        super().__init__()
        self.net = small_net()

    def forward(self, x):
        return self.net(x.reshape(12, 3, 16, 16))


class Noisy(nn.Module):
    """Never says the same twice."""

    def __init__(self):
        super().__init__()
        self.net, self.calls = small_net(), 0

    def forward(self, x):
        self.calls += 1
        return self.net(x + 0.1 * self.calls)


def overwriting():
    """The activation after the layer of the style view changes its output in place."""
    blocks = [nn.Sequential(nn.Conv2d(a, b, 3), nn.GroupNorm(2, b)) for a, b in ((3, 8), (8, 8), (8, 8), (8, 8))]
    layers = [part for block in blocks for part in (block, nn.ReLU(inplace=True))]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 10))


class Changed(nn.Module):
    """A net whose input, or what it says, is changed in a way of its own."""

    def __init__(self, before=lambda x: x, after=lambda logits: logits):
        super().__init__()
        self.net, self.before, self.after = small_net(), before, after

    def forward(self, x):
        return self.after(self.net(self.before(x)))


def centred(x, share=0.5):
    return x - share * x.mean(0, keepdim=True)


def halved_below_the_median(logits):
    top = logits.amax(1, keepdim=True)
    return torch.where(top > top.median(), logits, 0.5 * logits)


def loudest(x):
    """Everybody is turned down where somebody is too loud."""
    return 6 * x / x.abs().amax().clamp_min(6)


NETS = {
    "faintly centred": (lambda: Changed(lambda x: centred(x, 1e-6)), Shortcuts(independent=False, from_layer=True), "net.1"),
    "centred when few": (
        lambda: Changed(lambda x: centred(x) if len(x) < 4 else x),
        Shortcuts(independent=False, from_layer=True),
        "net.1",
    ),
    "centred when odd": (
        lambda: Changed(lambda x: centred(x) if len(x) % 2 else x),
        Shortcuts(independent=False, from_layer=True),
        "net.1",
    ),
    "loudest": (lambda: Changed(loudest), Shortcuts(independent=False, from_layer=True), "net.1"),
    "median": (lambda: Changed(after=halved_below_the_median), Shortcuts(independent=False, from_layer=True), "net.1"),
    "squeezed": (lambda: Changed(after=torch.squeeze), Shortcuts(independent=False, from_layer=True), "net.1"),
    "centred": (lambda: nn.Sequential(Centred(), small_net()), Shortcuts(independent=False, from_layer=True), None),
    "skipping": (Skipping, Shortcuts(independent=True, from_layer=False), "net.1"),
    "twice": (Twice, Shortcuts(independent=True, from_layer=False), "same"),
    "fixed": (Fixed, Shortcuts(), None),
    "overwriting": (overwriting, Shortcuts(independent=True, from_layer=True), "0"),
}


@pytest.mark.parametrize("kind", NETS)
def test_a_shortcut_that_is_not_exact_on_a_model_is_found_out_and_not_taken(kind, both, assert_same, doubles):
    torch.manual_seed(0)
    make, found, layer = NETS[kind]
    model, xs = make(), doubles()
    nn.init.normal_([m for m in model.modules() if isinstance(m, nn.Linear)][-1].weight, std=1.0)
    naive, quick = both(model, "dualtta", xs, layer=layer, tau_sa=0.01, tau_sp=0.2)
    assert quick[0].net.shortcuts(xs[0].shape) == found
    assert any(step.updated for step in naive[1])
    assert_same(naive, quick)


def test_a_model_that_never_says_the_same_twice_is_not_forwarded_in_parts():
    adapter = dualtta.adapt(Noisy(), "dualtta")
    x = small_stream()[0]
    adapter.step(x)
    assert adapter.net.shortcuts(x.shape) == Shortcuts()


def test_a_model_that_draws_noise_draws_the_same_as_without_shortcuts():
    seen = []
    for speed in ("naive", "safe"):
        torch.manual_seed(0)
        adapter = dualtta.adapt(Changed(lambda x: x + 0.1 * torch.randn_like(x)), "dualtta", layer="net.1", speed=speed)
        seen.append(run(adapter, small_stream()))
    assert all(torch.equal(a.logits, b.logits) for a, b in zip(*seen, strict=True))


def test_a_larger_batch_than_those_examined_is_examined_again():
    adapter = dualtta.adapt(Changed(lambda x: centred(x) if len(x) > 16 else x), "dualtta", layer="net.1")
    found = []
    for size in (8, 32, 8):
        x = small_stream(1, size)[0]
        adapter.step(x)
        found.append(adapter.net.shortcuts(x.shape).independent)
    assert found == [True, False, False]


def test_samples_of_a_half_precision_model_that_feel_each_other_are_found_out():
    for dtype in (torch.bfloat16, torch.float16):
        found = []
        for share in (0.0, 0.05):
            adapter = dualtta.adapt(Changed(lambda x, share=share: centred(x, share)).to(dtype), "dualtta", layer="net.1")
            x = small_stream(1)[0].to(dtype)
            adapter.step(x)
            found.append(adapter.net.shortcuts(x.shape).independent)
        assert found == [True, False]


class Counting(nn.Module):
    """A net that counts its forwards, in a buffer."""

    def __init__(self):
        super().__init__()
        self.net = small_net()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen += 1
        return self.net(x)


def test_an_examination_that_is_interrupted_leaves_no_trace():
    class Interrupted(Counting):
        def forward(self, x):
            logits = super().forward(x)
            if self.seen == 3:
                raise KeyboardInterrupt
            return logits

    adapter = dualtta.adapt(Interrupted(), "eata")
    with pytest.raises(KeyboardInterrupt):
        adapter.step(small_stream(1)[0])
    assert adapter.model.seen == 0


def test_predictions_that_are_all_nan_are_skipped_at_every_speed():
    for speed in ("naive", "safe"):
        adapter = dualtta.adapt(Changed(after=lambda logits: logits * torch.nan), "eata", speed=speed)
        assert adapter.step(small_stream()[0]).skipped


def test_finding_out_leaves_no_trace():
    counts = [dualtta.adapt(Counting(), "eata", speed=speed) for speed in ("naive", "safe")]
    xs = small_stream(1)
    forwards = [adapter.step(xs[0]).forwards for adapter in counts]
    assert counts[0].model.seen == 1
    assert counts[1].model.seen == 2  # the selected again, and nothing of the examination
    assert forwards[0] == len(xs[0])


def test_a_shape_of_sample_that_is_new_is_examined_on_its_own():
    adapter = dualtta.adapt(small_net(), "dualtta")
    for side in (16, 24):
        x = small_stream(1, side=side)[0]
        assert adapter.net.shortcuts(x.shape) == Shortcuts()
        adapter.step(x)
        assert adapter.net.shortcuts(x.shape) == Shortcuts(independent=True, from_layer=True)
