"""The paper's experiments, each with its reported numbers and its command; registered under `dualtta.experiments`.

dualtta run benchmarks --root DATA --out results/benchmarks
"""

import dataclasses
from typing import Any

from dualtta.bench.benchmarks import BENCHMARKS, IMAGENET_C, Options, imagenet, wanted
from dualtta.bench.run import Plan

METHODS = ("source", "tent", "sar", "eata", "deyo", "dualtta")  # the rows of the paper's tables


def benchmarks(options: Options) -> Plan:
    """Table 1: four benchmarks, six methods; PACS and Office-Home as all 12 pairs each.

    Reported for DualTTA: ColoredMNIST 82.12 / 68.82 (average / worst group), Waterbirds 88.44 / 72.53, Office-Home 61.51,
    PACS 76.02. Command: dualtta run benchmarks --root DATA --out results/benchmarks
    """
    return [c for setup in wanted(options, *BENCHMARKS) for c in setup.cells(options.methods or METHODS, options)]


def imagenet_c(options: Options) -> Plan:
    """ImageNet-C, severity 5: 15 corruptions, three backbones, six methods.

    Reported averages for DualTTA: ResNet50-BN 44.52, ResNet50-GN 41.83 (its cells average 37.92), ViT-B 63.00.
    Command: dualtta run imagenet-c --root DATA --out results/imagenet-c
    """
    return [c for setup in imagenet(options) for c in setup.cells(options.methods or METHODS, options)]


def wild(options: Options) -> Plan:
    """ImageNet-C with imbalanced labels, and with all corruptions mixed.

    Reported for DualTTA: imbalanced 43.83 (BN), 38.88 (GN), 63.30 (ViT); mixed 27.51, 38.92, 70.90.
    Command: dualtta run wild --root DATA --out results/wild
    """
    setups = [*imagenet(options, scenario="imbalanced"), *imagenet(options, scenario="mixed")]
    return [c for setup in setups for c in setup.cells(options.methods or METHODS, options)]


def ablation_filters(options: Options) -> Plan:
    """DualTTA with both filters, without the altering one, without the preserving one.

    Reported: ColoredMNIST 82.12, 74.63, 79.17; PACS 76.02, 75.80, 74.48; Office-Home 61.51, 61.20, 59.70; Waterbirds only in
    the text (the altering filter gains 4.19). Command: dualtta run ablation-filters --root DATA --out results/filters
    """
    switches: list[dict[str, Any]] = [{}, {"filter_sa": False}, {"filter_sp": False}]
    return [c for setup in wanted(options, *BENCHMARKS) for off in switches for c in setup.cells(["dualtta"], options, **off)]


def ablation_incorrect(options: Options) -> Plan:
    """With and without D-: DualTTA, DeYO and EATA.

    Reported with / without on ColoredMNIST, PACS, Office-Home: DualTTA 82.12 / 80.65, 76.02 / 75.52, 61.51 / 61.10;
    DeYO 79.17 / 77.98, 75.65 / 75.16, 59.70 / 59.08; EATA 62.31 / 60.65, 73.47 / 72.46, 55.72 / 52.34.
    Command: dualtta run ablation-incorrect --root DATA --out results/incorrect
    """
    setups = wanted(options, "colored_mnist", "pacs", "office_home")
    methods = options.methods or ("dualtta", "deyo", "deyo_dual", "eata", "eata_dual")
    with_them = [c for setup in setups for c in setup.cells(methods, options)]
    return with_them + [c for setup in setups for c in setup.cells(["dualtta"], options, lam=0.0)]


def efficiency(options: Options) -> Plan:
    """The share of samples that are used (%adapt), and that are used and right (%corr-adapt).

    Reported for DualTTA: ColoredMNIST 33.1 / 27.3, Office-Home 42.6 / 33.6, ImageNet-C 25.8 / 19.8.
    Command: dualtta run efficiency --root DATA --out results/efficiency
    """
    setups = wanted(options, "colored_mnist", "office_home")
    setups += imagenet(options) if options.wants(IMAGENET_C) else []
    return [c for setup in setups for c in setup.cells(options.methods or ("eata", "sar", "deyo", "dualtta"), options)]


TAUS = tuple(round(0.1 * i, 1) for i in range(1, 10))


def sensitivity(options: Options) -> Plan:
    """Both thresholds from 0.1 to 0.9 on four datasets, with DeYO for reference; the first seed alone.

    Reported: DualTTA above DeYO everywhere. Command: dualtta run sensitivity --root DATA --out results/sensitivity
    """
    once = dataclasses.replace(options, seeds=options.seeds[:1])
    setups = wanted(once, *BENCHMARKS)
    grid = [{"tau_sa": sa, "tau_sp": sp} for sa in TAUS for sp in TAUS]
    return [c for setup in setups for c in setup.cells(["deyo"], once)] + [
        c for setup in setups for taus in grid for c in setup.cells(["dualtta"], once, **taus)
    ]


def sweep_lambda(options: Options) -> Plan:
    """The trade-off coefficient from 0 to 2.

    Command: dualtta run sweep-lambda --root DATA --out results/lambda
    """
    setups = wanted(options, *BENCHMARKS)
    return [c for setup in setups for lam in (0.0, 0.25, 0.5, 1.0, 2.0) for c in setup.cells(["dualtta"], options, lam=lam)]


def sweep_layer(options: Options) -> Plan:
    """The style view at each stage of the ResNets.

    Command: dualtta run sweep-layer --root DATA --out results/layer
    """
    setups, stages = wanted(options, *BENCHMARKS), ("layer1", "layer2", "layer3", "layer4")
    return [c for setup in setups for layer in stages for c in setup.cells(["dualtta"], options, layer=layer)]


def quadrants(options: Options) -> Plan:
    """Impulse noise on ImageNet-C with ResNet-50: the accuracy in each quadrant of the two drops, absolute and relative.

    Reported: 71 % of D+ and 18 % of D- right. Command: dualtta run quadrants --root DATA --out results/quadrants
    """
    model = dataclasses.replace(options, backbone=options.backbone or "resnet50", speed="naive")  # all drops
    setups = imagenet(model, ["impulse_noise"])
    return [c for setup in setups for drop in ("absolute", "relative") for c in setup.cells(["dualtta"], model, drop=drop)]
