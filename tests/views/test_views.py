"""Properties of the views: what they promise for any batch, not for one."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import dualtta
from dualtta.testing import small_net, small_stream
from dualtta.views import VIEWS, AdaIN, ColorJitter, FourierMix, InputView, Occlusion, PatchShuffle, PixelShuffle, Style
from dualtta.views.default import moments, restyle, shuffle_patches
from dualtta.views.recolor import mix_amplitudes, partners

settings.register_profile("dualtta", deadline=None, max_examples=40)
settings.load_profile("dualtta")

seeds = st.integers(0, 2**31)
sides = st.integers(1, 13)
INPUT_VIEWS = [view for view in VIEWS.values() if issubclass(view, InputView)]


def generator(seed):
    return torch.Generator().manual_seed(seed)


def images(seed, b=3, h=8, w=8):
    return torch.randn(b, 3, h, w, generator=generator(seed), dtype=torch.float64)


def slow_shuffle(x, keys, rows, cols):
    """Patch by patch; what the grid leaves over stays where it is."""
    out, h, w = x.clone(), x.shape[2] // rows, x.shape[3] // cols
    for b in range(len(x)):
        order = sorted(range(rows * cols), key=lambda patch: keys[b, patch].item())
        for j, patch in enumerate(order):
            (r, c), (fr, fc) = divmod(j, cols), divmod(patch, cols)
            source = x[b, :, fr * h : (fr + 1) * h, fc * w : (fc + 1) * w]
            out[b, :, r * h : (r + 1) * h, c * w : (c + 1) * w] = source
    return out


@given(seeds, sides, sides, st.integers(1, 6))
def test_patch_shuffle_agrees_with_a_slow_one_on_any_grid_and_size(seed, h, w, grid):
    x, view = images(seed, h=h, w=w), PatchShuffle(grid)
    (keys,) = view.draw(x, generator(seed))
    out = view.transform(x, (keys,))
    torch.testing.assert_close(out, slow_shuffle(x, keys, min(grid, h), min(grid, w)), rtol=0, atol=0)


@given(seeds, sides, sides, st.integers(1, 6))
def test_patch_shuffle_is_a_permutation_of_pixels_and_keeps_sorted_keys_in_place(seed, h, w, grid):
    x, view = images(seed, h=h, w=w), PatchShuffle(grid)
    draws = view.draw(x, generator(seed))
    assert torch.equal(view.transform(x, draws).flatten(2).sort().values, x.flatten(2).sort().values)
    in_order = tuple(d.sort(1).values for d in draws)
    assert torch.equal(view.transform(x, in_order), x)


@given(seeds, sides, sides)
def test_pixel_shuffle_moves_whole_pixels_by_the_order_of_their_keys(seed, h, w):
    x, view = images(seed, h=h, w=w), PixelShuffle()
    (keys,) = view.draw(x, generator(seed))
    flat = x.flatten(2)
    expected = torch.stack([flat[b][:, keys[b].argsort()] for b in range(len(x))]).reshape(x.shape)
    assert torch.equal(view.transform(x, (keys,)), expected)


def test_shuffled_patches_keep_their_content():
    x = torch.arange(16.0).reshape(1, 1, 4, 4)
    out = shuffle_patches(x, torch.tensor([[3.0, 2.0, 1.0, 0.0]]), (2, 2))
    assert out[0, 0, :2, :2].tolist() == x[0, 0, 2:, 2:].tolist()


def test_occlusion_hides_the_middle_with_the_mean_colour():
    x = images(0, h=32, w=32)
    out = Occlusion().transform(x, ())
    assert torch.equal(out[:, :, 8:24, 8:24], x.mean((2, 3), keepdim=True).expand(-1, -1, 16, 16))
    out[:, :, 8:24, 8:24] = x[:, :, 8:24, 8:24]
    assert torch.equal(out, x)


def style(z, eps, *, channel=1, prefix=0, memory=None):
    return Style().transform(z, eps, channel, prefix, memory or {})


@given(seeds, st.integers(2, 6))
def test_style_without_noise_is_the_identity(seed, b):
    z, zero = images(seed, b=b), torch.zeros(b, dtype=torch.float64)
    torch.testing.assert_close(style(z, (zero, zero))[0], z, rtol=0, atol=1e-12)


@given(seeds, st.integers(2, 6))
def test_style_leaves_every_normalised_map_unchanged_up_to_sign(seed, b):
    z, eps = images(seed, b=b), torch.randn(2, b, generator=generator(seed + 1), dtype=torch.float64)
    styled, observed = style(z, tuple(eps))

    def normalised(maps):
        u, s = moments(maps)
        return (maps - u) / s

    before, after = normalised(z), normalised(styled)
    sign = (before * after).mean((2, 3), keepdim=True).sign()
    torch.testing.assert_close(after * sign, before, rtol=0, atol=1e-6)
    assert observed == {}


@given(seeds, st.integers(2, 5))
def test_style_agrees_with_the_printed_formula(seed, b):
    z, (eps_u, eps_s) = images(seed, b=b), torch.randn(2, b, generator=generator(seed + 1), dtype=torch.float64)
    u, s = z.mean((2, 3)), z.std((2, 3), correction=0)
    u_sp = u + eps_u[:, None] * u.std(0, correction=0)
    s_sp = s + eps_s[:, None] * s.std(0, correction=0)
    expected = (z - u[..., None, None]) * (s_sp / s)[..., None, None] + u_sp[..., None, None]
    torch.testing.assert_close(style(z, (eps_u, eps_s))[0], expected)


@pytest.mark.parametrize("value", [0.0, 0.3, -1e8])
def test_a_channel_without_variation_has_only_its_mean_moved(value):
    z = images(0)
    z[0, 1] = value
    eps = (torch.ones(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64))
    styled = style(z, eps)[0]
    assert styled.isfinite().all()
    assert styled[0, 1].std() <= 1e-12 * max(abs(value), 1)
    assert styled[0, 1, 0, 0] != value


@given(seeds)
def test_layouts_are_one_and_the_same_view(seed):
    z, eps = images(seed), tuple(torch.randn(2, 3, generator=generator(seed), dtype=torch.float64))
    first = style(z, eps)[0]
    last = style(z.movedim(1, -1).contiguous(), eps, channel=-1)[0]
    tokens = style(z.flatten(2).transpose(1, 2), eps, channel=-1)[0]
    torch.testing.assert_close(last.movedim(-1, 1), first)
    torch.testing.assert_close(tokens.transpose(1, 2).reshape(z.shape), first)


def test_class_tokens_are_left_alone():
    z, eps = images(0).flatten(2).transpose(1, 2), (torch.ones(3).double(), torch.ones(3).double())
    styled = style(z, eps, channel=-1, prefix=2)[0]
    assert torch.equal(styled[:, :2], z[:, :2])
    torch.testing.assert_close(styled[:, 2:], style(z[:, 2:], eps, channel=-1)[0])


def test_a_batch_of_one_takes_the_deviation_over_the_samples_so_far():
    memory, seen = {}, []
    for seed in range(5):
        z, eps = images(seed, b=1), (torch.tensor([0.7]).double(), torch.tensor([-0.4]).double())
        styled, observed = style(z, eps, memory=memory)
        memory = memory | observed
        seen.append((z.mean((2, 3))[0], z.std((2, 3), correction=0)[0]))
        u_sigma, s_sigma = (torch.stack(values).std(0, correction=0) for values in zip(*seen, strict=True))
        u, s = seen[-1]
        wide = (slice(None), None, None)
        expected = (z[0] - u[wide]) * ((s - 0.4 * s_sigma) / s)[wide] + (u + 0.7 * u_sigma)[wide]
        torch.testing.assert_close(styled[0], expected)


@pytest.mark.parametrize("view", INPUT_VIEWS, ids=lambda view: view.name)
@given(seed=seeds, b=st.integers(1, 5))
def test_input_views_permute_with_the_batch_and_leave_it_alone(view, seed, b):
    x = images(seed, b=b)
    kept, order = x.clone(), torch.randperm(b, generator=generator(seed))
    draws = view().draw(x, generator(seed))
    out = view().transform(x, draws)
    assert torch.equal(x, kept)
    assert out.shape == x.shape
    assert out.dtype == x.dtype
    permuted = view().transform(x[order], tuple(d[order] for d in draws))
    torch.testing.assert_close(permuted, out[order], rtol=0, atol=1e-12)


def test_a_batch_of_one_without_the_running_estimate_is_as_printed():
    z, eps = images(0, b=1), (torch.ones(1).double(), torch.ones(1).double())
    styled, observed = Style(running=False).transform(z, eps, 1, 0, {})
    torch.testing.assert_close(styled, z)
    assert observed == {}


@pytest.mark.parametrize(
    ("view", "setting"),
    [(AdaIN, {"mix": 9}), (FourierMix, {"share": -1}), (ColorJitter, {"strength": "x"}), (Occlusion, {"share": 2}),
     (PatchShuffle, {"grid": "4"}), (PatchShuffle, {"grid": 2.5}), (PatchShuffle, {"grid": 0})],
)  # fmt: skip
def test_settings_out_of_range_are_refused(view, setting):
    with pytest.raises(ValueError, match="must be"):
        view(**setting)


@pytest.mark.parametrize("view", INPUT_VIEWS, ids=lambda view: view.name)
def test_input_views_refuse_what_is_no_image(view):
    with pytest.raises(ValueError, match="needs images"):
        view().draw(torch.zeros(4, 10), generator(0))


@given(seeds, st.integers(2, 9))
def test_partners_form_one_cycle(seed, b):
    partner = partners(torch.rand(b, generator=generator(seed)))
    at, visited = 0, set()
    for _ in range(b):
        at = partner[at].item()
        visited.add(at)
    assert len(visited) == b


def test_recolouring_of_no_strength_is_the_identity():
    x = images(0)
    for view in (ColorJitter(strength=0.0), AdaIN(mix=0.0), FourierMix(mix=0.0)):
        torch.testing.assert_close(view.transform(x, view.draw(x, generator(0))), x)


def test_adain_gives_the_partners_statistics():
    x = images(0)
    keys = torch.tensor([0.1, 0.2, 0.3])
    out = AdaIN(mix=1.0).transform(x, (keys,))
    for mine, partners_own in zip(moments(out), moments(x[[1, 2, 0]]), strict=True):
        torch.testing.assert_close(mine, partners_own)


def test_fourier_mixing_takes_low_amplitudes_and_keeps_phases():
    x, other = images(0), images(1)
    out = mix_amplitudes(x, other, share=0.1, mix=1.0)  # a reach of 0: the zero frequency, the mean
    torch.testing.assert_close(out.mean((2, 3)).abs(), other.mean((2, 3)).abs())
    assert torch.equal(out.mean((2, 3)).sign(), x.mean((2, 3)).sign())
    everything = mix_amplitudes(x, other, share=1.0, mix=1.0)
    torch.testing.assert_close(torch.fft.fft2(everything).abs(), torch.fft.fft2(other).abs())


def test_restyling_by_the_own_moments_is_the_identity():
    z = images(0)
    torch.testing.assert_close(restyle(z, moments(z), moments(z)), z)


def test_half_precision_maps_are_restyled_in_float32():
    z, eps = images(0).float() * 100, (torch.ones(3), torch.ones(3))
    wide, narrow = style(z, eps)[0], style(z.bfloat16(), eps)[0]
    assert narrow.dtype == torch.bfloat16
    torch.testing.assert_close(narrow.float(), style(z.bfloat16().float(), eps)[0], rtol=0.01, atol=1)
    assert wide.dtype == torch.float32


def token_net():
    from timm.models.vision_transformer import VisionTransformer

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = VisionTransformer(img_size=16, patch_size=4, embed_dim=24, depth=4, num_heads=3, num_classes=10)
        nn.init.normal_(net.head.weight, std=1.0)
        return net


NETS = {"group": small_net("group").double(), "token": token_net().double()}


@pytest.mark.parametrize("net", NETS)
@given(seed=seeds, size=st.integers(2, 8), tau_sp=st.floats(-0.2, 0.7), drop=st.sampled_from(["absolute", "relative"]))
@settings(max_examples=15)
def test_permuting_a_batch_with_its_draws_permutes_the_step(net, seed, size, tau_sp, drop):
    model, x = NETS[net], small_stream(1, size, seed=seed)[0].double()
    order = torch.randperm(size, generator=generator(seed))
    setting = {"tau_sp": tau_sp, "drop": drop, "tau_sa": 0.1}
    step = dualtta.adapt(model, "dualtta", **setting).step(x)
    draws = {name: tuple(d[order] for d in drawn) for name, drawn in step.draws.items()}
    other = dualtta.adapt(model, "dualtta", **setting).step(x[order], draws=draws)
    for key in ("logits", "weight"):
        torch.testing.assert_close(getattr(other, key), getattr(step, key)[order], rtol=0, atol=1e-10)
    for key in ("alter", "preserve"):
        torch.testing.assert_close(other.drops[key], step.drops[key][order], rtol=0, atol=1e-10, equal_nan=True)
    assert torch.equal(other.plus, step.plus[order])
    assert torch.equal(other.minus, step.minus[order])


@given(seed=seeds, tau_sa=st.floats(-1, 1), tau_sp=st.floats(-1, 1), norm=st.sampled_from(["batch", "group"]))
@settings(max_examples=20)
def test_sets_are_disjoint_drops_bounded_and_weights_positive(seed, tau_sa, tau_sp, norm):
    adapter = dualtta.adapt(small_net(norm), "dualtta", tau_sa=tau_sa, tau_sp=tau_sp)
    step = adapter.step(small_stream(1, 8, seed=seed)[0])
    confidence = step.logits.softmax(1).amax(1)
    assert not (step.plus & step.minus).any()
    assert (step.weight[step.plus | step.minus] > 0).all()
    for drop in step.drops.values():
        assert (drop.isnan() | (drop <= confidence + 1e-6)).all()


def test_a_view_of_the_whole_model_does_not_touch_it():
    model = small_net("batch")
    before = copy.deepcopy(model.state_dict())
    adapter = dualtta.adapt(model, "dualtta")
    adapter.step(small_stream()[0])
    buffers = dict(adapter.model.named_buffers())
    assert all(torch.equal(value, before[name]) for name, value in buffers.items())
