"""Arrays in npy, npz and MNIST's idx files, memory-mapped where possible. Pickles are not read."""

import gzip
import math
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualtta.data.datasets.base import Pixels
from dualtta.data.images import describe_failure

LOCAL_HEADER = struct.Struct("<26xHH")  # a zip member's data starts after its header, its name and its extra field


def read_npy(path: Path) -> NDArray[Any]:
    """The array of an npy file, memory-mapped."""
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise
    except Exception as error:  # a damaged header may raise anything
        raise ValueError(f"{path}: {_not_an_array(path, error)}") from error
    return array


def read_npz(path: Path, *keys: str) -> list[NDArray[Any]]:
    """Arrays of an npz file; uncompressed ones (`np.savez`) are memory-mapped."""
    try:
        with zipfile.ZipFile(path) as archive, np.load(path, allow_pickle=False) as file:
            return [_map_member(path, archive, key) if _stored(archive, key) else file[key] for key in keys]
    except FileNotFoundError:
        raise
    except KeyError as error:
        raise ValueError(f"{path} has no array {error.args[0]!r}; it must have {', '.join(keys)}") from error
    except Exception as error:
        raise ValueError(f"{path}: {_not_an_array(path, error)}") from error


def read_idx(path: Path) -> Pixels:
    """The array of an idx file of bytes (MNIST's format), memory-mapped, or read where it is gzipped."""
    try:
        packed = path.suffix == ".gz"
        with gzip.open(path) if packed else path.open("rb") as file:
            magic = file.read(4)
            if len(magic) != 4 or magic[:3] != b"\0\0\x08" or not 1 <= magic[3] <= 3:
                raise ValueError("not an idx file of bytes")
            shape = struct.unpack(f">{magic[3]}I", file.read(4 * magic[3]))
            size, start = math.prod(shape), 4 + 4 * magic[3]
            if packed:
                data = file.read(size + 1)
                if len(data) != size:
                    raise ValueError(f"its header declares {size} bytes, which is not what it holds")
                return np.frombuffer(data, np.uint8).reshape(shape)
        if path.stat().st_size != start + size:
            raise ValueError(f"its header declares {start + size} bytes, it has {path.stat().st_size}")
        return np.memmap(path, np.uint8, "r", start, shape)
    except FileNotFoundError:
        raise
    except Exception as error:
        raise ValueError(f"{path}: {_not_an_array(path, error)}") from error


def _stored(archive: zipfile.ZipFile, key: str) -> bool:
    return archive.getinfo(f"{key}.npy").compress_type == zipfile.ZIP_STORED if f"{key}.npy" in archive.namelist() else False


def _map_member(path: Path, archive: zipfile.ZipFile, key: str) -> NDArray[Any]:
    info = archive.getinfo(f"{key}.npy")
    with path.open("rb") as file:
        file.seek(info.header_offset)
        name, extra = LOCAL_HEADER.unpack(file.read(LOCAL_HEADER.size))
        file.seek(info.header_offset + LOCAL_HEADER.size + name + extra)
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(file)
        if dtype.hasobject:
            raise ValueError("it holds Python objects, which are not loaded")
        return np.memmap(path, dtype, "r", file.tell(), shape, "F" if fortran else "C")


def _not_an_array(path: Path, error: Exception) -> str:
    """What the file is instead of an array, or the error of the reader."""
    words = describe_failure(path, error)
    return (
        f"damaged or of another format ({str(error).splitlines()[0] if str(error) else error!r})"
        if words
        in (
            "not an image",
            "a zip archive",
            "a gzip archive",
        )
        else words
    )
