"""Published weights, from the hub or from what was fetched before. Asks only when told to, and gives up in seconds."""

import urllib.error
import urllib.request

from torch import Tensor, nn

PATIENCE = 5  # seconds: the hub's own client retries for most of a minute where there is no network


def published_weights(name: str, tag: str | None) -> dict[str, Tensor]:
    """The state dict that timm publishes under this tag."""
    if tag is None:
        raise ValueError(f"no weights of {name} are published: give a file, or train it")
    import timm

    cfg = timm.get_pretrained_cfg(tag)
    if cfg is None or not cfg.hf_hub_id:
        raise ValueError(f"timm's hub has no weights {tag!r}: give a file")
    path = fetch(cfg.hf_hub_id, "model.safetensors")
    net: nn.Module = timm.create_model(tag, pretrained=True, pretrained_cfg_overlay={"file": path})
    return net.state_dict()


def fetch(repository: str, file: str) -> str:
    """A file of the hub, on this disk; a ValueError in one line where it is not there and cannot be had."""
    from huggingface_hub import constants, hf_hub_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return str(hf_hub_download(repository, file, local_files_only=True))
    except LocalEntryNotFoundError:
        pass
    way = "give a file with its weights, or fetch it once where there is a network"
    if constants.HF_HUB_OFFLINE:
        raise ValueError(f"{repository} was not fetched before, and HF_HUB_OFFLINE forbids to ask the hub: {way}")
    if not reachable(constants.ENDPOINT):
        raise ValueError(f"{repository} was not fetched before, and {constants.ENDPOINT} cannot be reached: {way}")
    try:
        return str(hf_hub_download(repository, file))
    except Exception as error:  # whatever a network does
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"the hub did not give {repository}/{file} ({first}): {way}") from error


def reachable(address: str) -> bool:
    """Whether a server answers, whatever it says."""
    try:
        urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=PATIENCE).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True
