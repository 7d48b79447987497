import pytest
import torch
import torch._dynamo.testing
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

import dualtta
from dualtta.speed import Speed
from dualtta.testing import run, small_net, small_stream

pytestmark = [
    pytest.mark.slow,
    # torch's own warnings while it compiles
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores:UserWarning"),
    pytest.mark.filterwarnings("ignore:The CUDA Graph is empty:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
]


@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize("method", ["dualtta", "deyo", "sar", "eata", "tent", "source"])
def test_compiled_passes_give_the_same_and_are_compiled_once_for_every_number_of_samples(
    method, norm, both, assert_same, doubles, loose
):
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    torch._dynamo.reset()
    xs = doubles(9)
    naive, quick = both(small_net(norm), method, xs, speed=Speed(compile=True, backend=counter))
    assert_same(naive, quick)
    torch._dynamo.reset()
    counter.clear()
    adapter = dualtta.adapt(
        small_net(norm).double(), method, speed=Speed(compile=True, backend=counter), **loose.get(method, {})
    )
    run(adapter, xs[:4])  # the fourth may ask the source model, without gradient
    so_far = counter.frame_count
    selected = {int(step.plus.sum()) for step in run(adapter, xs[4:])}
    assert counter.frame_count == so_far <= 5  # a pass with a graph, one without, from the layer upwards, the two views
    assert method in ("tent", "source") or len(selected) > 1
    run(adapter, [xs[0][:-3]])  # the rest of a stream: never compiled for on its own, eager where statistics are the batch's
    assert counter.frame_count == so_far


@pytest.mark.parametrize("norm", ["batch", "group"])
def test_what_was_compiled_for_a_method_without_a_feature_view_is_not_taken_for_one_with(
    norm, both, assert_same, doubles, loose
):
    torch._dynamo.reset()
    xs, quick = doubles(3), Speed(compile=True, backend="aot_eager")
    run(dualtta.adapt(small_net(norm).double(), "deyo", speed=quick, **loose["deyo"]), xs)  # adapts the same layers
    assert_same(*both(small_net(norm), "dualtta", xs, speed=quick))


@pytest.mark.parametrize("statistics", ["batch", 0.5])
def test_the_backward_of_a_compiled_pass_begins_with_the_logits_alone(statistics):
    torch._dynamo.reset()
    begun = []

    def backward(graph, examples):
        names = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
        begun.append([tuple(x.shape) for name, x in zip(names, examples, strict=True) if name.startswith("tangents")])
        return make_boxed_func(graph)

    backend = aot_autograd(fw_compiler=lambda graph, examples: make_boxed_func(graph), bw_compiler=backward)
    quick = Speed(compile=True, backend=backend)
    adapter = dualtta.adapt(small_net("batch"), "dualtta", speed=quick, statistics=statistics, tau_sa=-1, tau_sp=1)
    run(adapter, small_stream(2, 8))
    assert begun == [[(8, 10)]]


def test_what_was_compiled_for_some_statistics_is_not_taken_for_others(both, assert_same, doubles):
    torch._dynamo.reset()
    xs, quick = doubles(3), Speed(compile=True, backend="aot_eager")
    model = small_net("batch")
    for statistics in ("source", 0.5, "batch", 0.9):
        assert_same(*both(model, "dualtta", xs, speed=quick, statistics=statistics))


def test_passes_by_a_blend_are_compiled_once(loose):
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    quick = Speed(compile=True, backend=counter)
    adapter = dualtta.adapt(small_net("batch"), "dualtta", speed=quick, statistics=0.5, **loose["dualtta"])
    xs = small_stream(9, 12)
    run(adapter, xs[:4])
    so_far = counter.frame_count
    run(adapter, xs[4:])
    assert counter.frame_count == so_far <= 5


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize(("norm", "statistics"), [("batch", None), ("batch", 0.5), ("group", None)])
@pytest.mark.parametrize("speed", ["safe", "half", "compiled", "fast"])
def test_speeds_agree_on_a_gpu(speed, norm, statistics, loose):
    xs = [x.cuda() for x in small_stream(4, 32)]
    options = {"lr": 1e-3, "statistics": statistics, **loose["dualtta"]}
    naive, quick = (dualtta.adapt(small_net(norm).cuda(), "dualtta", speed=s, **options) for s in ("naive", speed))
    near = 0.1 if speed in ("half", "fast") else 1e-2
    for a, b in zip(run(naive, xs), run(quick, xs), strict=True):
        assert b.logits.device.type == "cuda"
        assert (a.logits - b.logits.float()).abs().max() < near * a.logits.abs().max()
        if speed == "safe":
            assert torch.equal(a.plus, b.plus)
