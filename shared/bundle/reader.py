"""Open a bundle, from a folder or a `.hyb` archive, and believe nothing that does not check out.

Raises `Malformed` (schema, labels, golden samples), `NotTrusted` (hash, size, unlisted or unsafe
file) or `TooLarge`. That the graphs have the stated inputs and outputs is checked when an engine
opens them (`shared/engines/ranking.py`).
"""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pydantic_core
from numpy.typing import NDArray
from pydantic import ValidationError

from shared.bundle.archive import read_archive
from shared.bundle.files import BYTES_MAX, MANIFEST, Files, FolderFiles, MemberFiles
from shared.bundle.manifest import FORMAT, File, Manifest, Tensor
from shared.errors import Malformed, NotTrusted, TooLarge
from shared.imaging.npy import parse_npy
from shared.imaging.npz import unpack_npz

_MANIFEST_BYTES_MAX = 4 * 1024 * 1024
_GOLDEN_BYTES_MAX = 64 * 1024 * 1024
_GOLDEN_ARRAYS_MAX = 8  # two belong there; so few more are read to say so
_PROBLEMS_SHOWN = 4


@dataclass(frozen=True, slots=True)
class GoldenSamples:
    """What every runtime must reproduce; both arrays are read-only."""

    inputs: NDArray[np.generic]  # [N, ...] of the manifest's input dtype
    outputs: NDArray[np.float32]  # [N, ...] of the fp32 reference


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle whose every file has been checked once; `read` checks again at each load."""

    manifest: Manifest
    golden: GoldenSamples = field(repr=False)
    dictionary: bytes = field(repr=False)  # of the payload codec; b"" when it uses none
    where: str
    manifest_bytes: bytes = field(repr=False)  # as they stand in the bundle: what is signed
    _files: Files = field(repr=False)

    def read(self, file: File) -> bytes:
        """The bytes of one listed file. Raises `NotTrusted` when they have changed since."""
        return _checked(self._files, file)


def open_bundle(path: Path, *, hashes_graphs: bool = True) -> Bundle:
    """Open and verify the bundle in a folder or a single `.hyb` file.

    `hashes_graphs`: False for who hands the graphs to somebody who will, and reads none of them.
    """
    if path.is_dir():
        return verify(FolderFiles(path), hashes_graphs=hashes_graphs)
    if not path.exists():
        raise Malformed(f"{path}: there is no such bundle; name a folder or a .hyb file")
    return verify(MemberFiles(str(path), read_archive(path)))


def verify(files: Files, *, hashes_graphs: bool = True) -> Bundle:
    """Check everything that can be checked without an engine; of graphs the sizes alone, on demand."""
    present = files.paths()
    if MANIFEST not in present:
        raise Malformed(f"{files.where}: there is no {MANIFEST}; this is not a bundle")
    manifest_bytes = files.read(MANIFEST, _MANIFEST_BYTES_MAX)
    manifest = parse_manifest(manifest_bytes, f"{files.where}: {MANIFEST}")
    listed = {file.path: file for file in manifest.files()}
    if unlisted := sorted(present - set(listed) - {MANIFEST}):
        raise NotTrusted(
            f"{files.where}: {unlisted[0]} is not in {MANIFEST}, so nothing vouches for it; "
            "remove it or rebuild the bundle"
        )
    if (total := sum(file.bytes for file in listed.values())) > BYTES_MAX:
        raise TooLarge(f"{files.where}: lists {total} bytes; at most {BYTES_MAX} are accepted")
    graphs = set() if hashes_graphs else {variant.file.path for variant in manifest.variants}
    for file in listed.values():
        if file.path in graphs:
            _check_size(files, file, files.size(file.path))
        else:
            _checked(files, file)
    dictionary = manifest.payload.dictionary
    return Bundle(
        manifest=manifest,
        golden=_golden(files, manifest),
        dictionary=b"" if dictionary is None else _checked(files, dictionary),
        where=files.where,
        manifest_bytes=manifest_bytes,
        _files=files,
    )


def parse_manifest(content: bytes, where: str) -> Manifest:
    """Bytes of `manifest.json` to a `Manifest`; raises `Malformed` in words."""
    try:
        tree = pydantic_core.from_json(content, allow_inf_nan=False)
    except ValueError as error:
        raise Malformed(f"{where}: not JSON: {error}") from error
    stated = tree.get("format") if isinstance(tree, dict) else None
    if type(stated) is int and stated > FORMAT:
        raise Malformed(
            f"{where}: made by a newer Hybridge (bundle format {stated}, this program reads "
            f"{FORMAT}); update this program"
        )
    try:
        return Manifest.model_validate_json(content)
    except ValidationError as error:
        raise Malformed(f"{where}: {_in_words(error)}") from error


def _in_words(error: ValidationError) -> str:
    problems = [
        f"{'.'.join(str(part) for part in problem['loc']) or 'manifest'}: {problem['msg']}"
        for problem in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    more = len(problems) - _PROBLEMS_SHOWN
    return "; ".join(problems[:_PROBLEMS_SHOWN]) + (f"; and {more} more" if more > 0 else "")


def _checked(files: Files, file: File) -> bytes:
    try:
        content = files.read(file.path, file.bytes)
    except TooLarge as error:
        raise NotTrusted(
            f"{files.where}: {file.path} is longer than the {file.bytes} bytes in {MANIFEST}; "
            "fetch the bundle again"
        ) from error
    _check_size(files, file, len(content))
    found = hashlib.sha256(content).hexdigest()
    if found != file.sha256:
        raise NotTrusted(
            f"{files.where}: {file.path} has sha256 {found[:16]}..., {MANIFEST} says "
            f"{file.sha256[:16]}...; fetch the bundle again"
        )
    return content


def _check_size(files: Files, file: File, size: int) -> None:
    if size != file.bytes:
        raise NotTrusted(
            f"{files.where}: {file.path} has {size} bytes, {MANIFEST} says {file.bytes}; "
            "fetch the bundle again"
        )


def _golden(files: Files, manifest: Manifest) -> GoldenSamples:
    where = f"{files.where}: {manifest.golden.file.path}"
    arrays = _arrays(_checked(files, manifest.golden.file), where)
    inputs = _fits(arrays["inputs"], manifest.inputs[0], f"{where}: inputs")
    outputs = _fits(arrays["outputs"], manifest.outputs[0], f"{where}: outputs")
    if len(inputs) != len(outputs) or not len(inputs):
        raise Malformed(f"{where}: {len(inputs)} inputs for {len(outputs)} outputs; rebuild it")
    if not np.isfinite(outputs).all():
        raise Malformed(f"{where}: outputs hold NaN or infinity; rebuild it from the reference")
    for precision in sorted({variant.precision for variant in manifest.variants}):
        for name in ("tolerance", "agreement_min"):
            if precision not in getattr(manifest.golden, name):
                raise Malformed(
                    f"{files.where}: {MANIFEST}: golden.{name} does not say what {precision} may do"
                )
    return GoldenSamples(inputs, outputs.astype(np.float32, copy=False))


def _arrays(content: bytes, where: str) -> dict[str, NDArray[np.generic]]:
    unpacked = unpack_npz(
        content, where, bytes_max=_GOLDEN_BYTES_MAX, arrays_max=_GOLDEN_ARRAYS_MAX
    )
    if sorted(unpacked) != ["inputs.npy", "outputs.npy"]:
        raise Malformed(f"{where}: must hold `inputs` and `outputs`, nothing else")
    return {
        name[:-4]: parse_npy(array, f"{where}: {name[:-4]}") for name, array in unpacked.items()
    }


def _fits(array: NDArray[np.generic], tensor: Tensor, what: str) -> NDArray[np.generic]:
    if array.dtype != np.dtype(tensor.dtype) or array.shape[1:] != tensor.shape or not array.ndim:
        raise Malformed(
            f"{what} are {array.dtype}{list(array.shape)}; the manifest says "
            f"{tensor.dtype}[N, {', '.join(map(str, tensor.shape))}]"
        )
    return array
