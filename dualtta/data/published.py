"""Published facts: the classes and the number of images of each dataset, which a copy on disk is compared with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path

CORRUPTIONS = (
    "gaussian_noise",
    "shot_noise",
    "impulse_noise",
    "defocus_blur",
    "glass_blur",
    "motion_blur",
    "zoom_blur",
    "snow",
    "frost",
    "fog",
    "brightness",
    "contrast",
    "elastic_transform",
    "pixelate",
    "jpeg_compression",
)
KINDS = ("noise", "blur", "weather", "digital")  # the folders (and archives) that ImageNet-C comes in
SEVERITIES = (1, 2, 3, 4, 5)
CLEAN = "clean"  # the domain of uncorrupted images
STRESS = ("imagenet_stress", "cifar10_stress", "digits_stress", "folder_stress")  # datasets that have it, for tests of harm
CCC = ("imagenet_ccc", "cifar10_ccc", "digits_ccc", "folder_ccc")  # continually changing corruptions
DIFFICULTIES = ("easy", "medium", "hard")


@dataclass(frozen=True)
class Published:
    """The number of images of each domain and group, the classes, and where to download the dataset."""

    title: str
    domains: Mapping[str, int]
    classes: tuple[str, ...]
    source: str
    groups: Mapping[str, int] = field(default_factory=dict)


PACS = Published(
    "PACS",
    {"art_painting": 2048, "cartoon": 2344, "photo": 1670, "sketch": 3929},
    ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person"),
    "the PACS archive of its authors (sketchx.eecs.qmul.ac.uk) or of DomainBed",
)

OFFICE_HOME_CLASSES = """
Alarm_Clock Backpack Batteries Bed Bike Bottle Bucket Calculator Calendar Candles Chair Clipboards Computer Couch Curtains
Desk_Lamp Drill Eraser Exit_Sign Fan File_Cabinet Flipflops Flowers Folder Fork Glasses Hammer Helmet Kettle Keyboard Knives
Lamp_Shade Laptop Marker Monitor Mop Mouse Mug Notebook Oven Pan Paper_Clip Pen Pencil Postit_Notes Printer Push_Pin Radio
Refrigerator Ruler Scissors Screwdriver Shelf Sink Sneakers Soda Speaker Spoon TV Table Telephone ToothBrush Toys Trash_Can
Webcam
"""

OFFICE_HOME = Published(
    "Office-Home",
    {"Art": 2427, "Clipart": 4365, "Product": 4439, "Real World": 4357},
    tuple(OFFICE_HOME_CLASSES.split()),
    "OfficeHomeDataset_10072016.zip of its authors (hemanthdv.org/officeHomeDataset.html)",
)

WATERBIRDS = Published(
    "Waterbirds",
    {"train": 4795, "val": 1199, "test": 5794},
    ("landbird", "waterbird"),
    "waterbird_complete95_forest2water2.tar.gz of its authors (github.com/kohpangwei/group_DRO)",
    {
        "train: landbird on land": 3498,
        "train: landbird on water": 184,
        "train: waterbird on land": 56,
        "train: waterbird on water": 1057,
        "val: landbird on land": 467,
        "val: landbird on water": 466,
        "val: waterbird on land": 133,
        "val: waterbird on water": 133,
        "test: landbird on land": 2255,
        "test: landbird on water": 2255,
        "test: waterbird on land": 642,
        "test: waterbird on water": 642,
    },
)

COLORED_MNIST = Published(
    "MNIST, for ColoredMNIST",
    {"flip20": 20000, "flip10": 20000, "flip90": 20000},
    ("0-4", "5-9"),
    "train-images-idx3-ubyte.gz and train-labels-idx1-ubyte.gz, in torchvision's layout MNIST/raw",
)

CIFAR10 = Published(
    "CIFAR-10",
    {"train": 50000, "test": 10000},
    ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    "cifar-10-python.tar.gz of its authors (www.cs.toronto.edu/~kriz/cifar.html)",
)

CIFAR10_C = Published(
    "CIFAR-10-C",
    {f"{name}_{severity}": 10000 for name in CORRUPTIONS for severity in SEVERITIES},
    CIFAR10.classes,
    "CIFAR-10-C.tar of its authors (zenodo.org/records/2535967)",
)


@cache
def wnids() -> tuple[str, ...]:
    """The 1,000 WordNet ids in the order of the classes, as timm ships them."""
    return tuple(_timm_file("imagenet_synsets.txt").split())


@cache
def class_names() -> tuple[str, ...]:
    """A readable name for each class; ambiguous ones, such as the two cranes, include the WordNet id."""
    lemmas = dict(line.split("\t", 1) for line in _timm_file("imagenet_synset_to_lemma.txt").splitlines() if line)
    names = [lemmas[wnid].split(",")[0] for wnid in wnids()]
    return tuple(name if names.count(name) == 1 else f"{name} ({wnid})" for name, wnid in zip(names, wnids(), strict=True))


def _timm_file(name: str) -> str:
    spec = find_spec("timm")  # found, not imported: timm imports torch
    assert spec is not None
    assert spec.origin is not None
    return (Path(spec.origin).parent / "data" / "_info" / name).read_text(encoding="utf-8")


IMAGENET = Published(
    "ImageNet validation",
    {"validation": 50000},
    class_names(),
    "ILSVRC2012_img_val.tar (image-net.org), sorted into one folder per class",
)

IMAGENET_C = Published(
    "ImageNet-C",
    {f"{name}_{severity}": 50000 for name in CORRUPTIONS for severity in SEVERITIES},
    IMAGENET.classes,
    "blur.tar, digital.tar, noise.tar and weather.tar of its authors (zenodo.org/records/2235448)",
)
