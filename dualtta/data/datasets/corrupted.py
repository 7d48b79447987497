"""Any dataset under corruptions, generated on access. An image does not depend on which images were read before."""

import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dualtta.data.datasets.base import Dataset, Picture, Pixels
from dualtta.data.published import CORRUPTIONS, SEVERITIES
from dualtta.plugins import nearest

Corrupt = Callable[[Pixels, str, int, np.random.RandomState], Pixels]


class Corrupted(Dataset):
    """Every image of a dataset under every corruption and severity; each pair is a domain.

    Args:
        base: The dataset to corrupt.
        seed: Of the corruptions' random draws.
        frost: A folder of frost textures; see `find_frost`.
        prepare: Turns an image of `base` into the bytes (H, W, 3) that are corrupted.
        corrupt: Replaces the built-in corruptions: (image, corruption, severity, generator) -> image.
        name: The name in records; by default that of `base`.
    """

    def __init__(
        self,
        base: Dataset,
        corruptions: Sequence[str] = CORRUPTIONS,
        severities: Sequence[int] = (5,),
        *,
        seed: int = 2024,
        frost: str | Path | None = None,
        prepare: Callable[[Picture], Pixels] = np.asarray,
        corrupt: Corrupt | None = None,
        name: str = "",
    ) -> None:
        self.base, self.seed, self.prepare, self.frost = base, seed, prepare, frost
        self.name = name or base.name
        self.pairs = [(corruption, severity) for corruption in corruptions for severity in severities]
        self.own = corrupt  # None: the built-in corruptions, imported on first use because they import OpenCV
        domains = corruption_domains(corruptions, severities, known=CORRUPTIONS if corrupt is None else corruptions)
        times = len(self.pairs)
        super().__init__(
            np.tile(base.labels, times),
            base.classes,
            domain=np.repeat(np.arange(times), len(base)),
            domains=domains,
            group=np.tile(base.group, times) if base.groups else None,
            groups=base.groups,
        )

    def image(self, index: int) -> Picture:
        pair, row = divmod(index, len(self.base))
        corruption, severity = self.pairs[pair]
        return self._corrupt(self.prepare(self.base.image(row)), corruption, severity, row)

    def _corrupt(self, image: Pixels, corruption: str, severity: int, row: int) -> Pixels:
        if self.own is not None:
            key = [self.seed, zlib.crc32(corruption.encode()), severity, row]
            return self.own(image, corruption, severity, np.random.RandomState(key))
        from dualtta.data.corruptions import corrupt, rng_for

        drawn: Pixels = corrupt(image, corruption, severity, rng_for(self.seed, corruption, severity, row), frost=self.frost)
        return drawn

    def where(self, index: int) -> str:
        pair, row = divmod(index, len(self.base))
        return f"{self.base.where(row)} under {self.domains[pair]}"

    def about(self) -> dict[str, Any]:
        drawn = {"drawn": "on the fly", "corruption_seed": self.seed, "frost": self._frost_origin(), "of": self.base.about()}
        return {**super().about(), **drawn}

    def _frost_origin(self) -> str | None:
        """The origin of the frost textures; results with generated ones are not comparable with published ones."""
        if self.own is not None or all(corruption != "frost" for corruption, _ in self.pairs):
            return None
        from dualtta.data.corruptions import find_frost

        return str(find_frost(self.frost).origin)


def corruption_domains(
    corruptions: Sequence[str], severities: Sequence[int], known: Sequence[str] = CORRUPTIONS
) -> tuple[str, ...]:
    """The names of the domains: the corruption, with the severity where there are several severities.

    >>> corruption_domains(["fog"], [5]), corruption_domains(["fog"], [1, 5])
    (('fog',), ('fog_1', 'fog_5'))
    """
    for name in corruptions:
        if name not in known:
            raise ValueError(f"there is no corruption {name!r}; {nearest(name, known)}")
    for severity in severities:
        if severity not in SEVERITIES:
            raise ValueError(f"a severity is 1, 2, 3, 4 or 5, not {severity!r}")
    if not corruptions or not severities:
        raise ValueError("name at least one corruption and one severity")
    single = len(severities) == 1
    return tuple(name if single else f"{name}_{severity}" for name in corruptions for severity in severities)
