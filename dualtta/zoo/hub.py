"""Pretrained weights from the Hugging Face hub or its local cache. Only `weights="pretrained"` uses the network."""

import urllib.error
import urllib.request

from torch import Tensor, nn

TIMEOUT = 5  # seconds; the hub's own client retries for most of a minute when there is no network


def published_weights(name: str, tag: str | None) -> dict[str, Tensor]:
    """The state dict that timm publishes under this tag; `name` is the model's, for error messages."""
    if tag is None:
        raise ValueError(f"there are no pretrained weights of {name}: give a file, or train it")
    import timm

    cfg = timm.get_pretrained_cfg(tag)
    if cfg is None or not cfg.hf_hub_id:
        raise ValueError(f"the hub has no weights {tag!r}: give a file")
    path = fetch(cfg.hf_hub_id, "model.safetensors")
    net: nn.Module = timm.create_model(tag, pretrained=True, pretrained_cfg_overlay={"file": path})
    return net.state_dict()


def fetch(repository: str, file: str) -> str:
    """Path of a file of the hub in the local cache, downloaded if needed; a ValueError in one line if it cannot be."""
    from huggingface_hub import constants, hf_hub_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return str(hf_hub_download(repository, file, local_files_only=True))
    except LocalEntryNotFoundError:
        pass
    hint = "give a file with the weights, or download them once with network access"
    if constants.HF_HUB_OFFLINE:
        raise ValueError(f"{repository} is not in the local cache, and HF_HUB_OFFLINE is set: {hint}")
    if not reachable(constants.ENDPOINT):
        raise ValueError(f"{repository} is not in the local cache, and {constants.ENDPOINT} cannot be reached: {hint}")
    try:
        return str(hf_hub_download(repository, file))
    except Exception as error:  # network errors of any kind
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"{repository}/{file} cannot be downloaded ({first}): {hint}") from error


def reachable(address: str) -> bool:
    """Whether a server answers, with any status."""
    try:
        urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=TIMEOUT).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True
