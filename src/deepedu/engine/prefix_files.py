"""Shared prefixes on disk: one file each, mapped into memory on reading, the least recently used going first."""

import hashlib
import json
import logging
import os
import threading
import time
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from deepedu.base.errors import EngineError
from deepedu.engine.rows import RowBlock

logger = logging.getLogger(__name__)

FORMAT = 1
# Tokens that are hashed, and so reused, together.
HASH_BLOCK = 64
HASH_BYTES = 16
UNTAGGED = "untagged"


@dataclass(frozen=True)
class PrefixFile:
    """A file that was found: ``hashes`` name the tokens up to each hash block, the last one all ``rows`` tokens.

    ``partial``: of a computation that was interrupted; it goes when a longer one is there.
    """

    path: Path
    rows: int
    hashes: tuple[bytes, ...]
    file_bytes: int
    partial: bool = False


class PrefixFiles:
    """The prefixes of one model under one method in ``folder/<tag>/<digest>.safetensors``.

    Files of other models lie beside them; they are never read, but count towards the size limit. A file that is
    damaged is left alone, logged, and never served.
    """

    def __init__(self, folder: Path, fingerprint: str, limit_bytes: int) -> None:
        """``fingerprint``: whatever the rows depend on besides the tokens. ``limit_bytes`` 0 turns the disk off."""
        self.folder, self.fingerprint, self.limit_bytes = folder, fingerprint, limit_bytes
        self._lock = threading.RLock()
        self._files: dict[Path, PrefixFile] = {}
        self._by_hash: dict[bytes, tuple[PrefixFile, int]] = {}
        self._sound: set[Path] = set()
        if limit_bytes:
            self._scan()

    def find(self, digest: bytes) -> tuple[PrefixFile, int] | None:
        """The file that holds the tokens of this hash, and how many rows they are."""
        with self._lock:
            found = self._by_hash.get(digest)
            if found is not None and not found[0].path.is_file():
                # Deleted behind our back, with its book.
                self._drop(found[0])
                return None
            return found

    def load(self, file: PrefixFile, dtype: torch.dtype, device: torch.device | None = None) -> list[RowBlock] | None:
        """The rows, mapped: what is not looked at is not read; on another device than the CPU a copy.

        None where the file turns out damaged or gone.
        """
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(str(file.path), framework="pt") as opened:
                names = set(opened.keys())
                sums = json.loads(opened.metadata()["checksums"])
                tensors = {name: opened.get_tensor(name) for name in names}
            if file.path not in self._sound and {name: _checksum(tensor) for name, tensor in tensors.items()} != sums:
                raise ValueError("a checksum does not match")
            os.utime(file.path)
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            logger.warning("the cached prefix %s cannot be used (%s); computing it again", file.path, error)
            with self._lock:
                self._drop(file)
            return None
        self._sound.add(file.path)
        if device is not None and device.type != "cpu":
            tensors = {name: tensor.to(device) for name, tensor in tensors.items()}
        layers = sum(name.startswith("key.") for name in tensors)
        return [
            RowBlock(
                tensors[f"key.{layer}"],
                tensors[f"value.{layer}"],
                tensors.get(f"key_scale.{layer}"),
                tensors.get(f"value_scale.{layer}"),
                dtype,
                used=file.rows,
            )
            for layer in range(layers)
        ]

    def write(
        self, blocks: Sequence[RowBlock], rows: int, hashes: Sequence[bytes], tag: str | None, *, partial: bool = False
    ) -> PrefixFile:
        """Keeps a prefix; files used least recently make room.

        Raises:
            EngineError: it cannot be written, or is larger than the limit; nothing is left behind.
        """
        from safetensors import SafetensorError
        from safetensors.torch import save_file

        size = rows * sum(block.row_bytes for block in blocks)
        if size > self.limit_bytes:
            raise EngineError(
                f"a prefix of {rows} tokens takes {size >> 20} MB, the limit is {self.limit_bytes >> 20} MB: "
                "raise engine.prefix_disk_gb"
            )
        path = self.folder / (tag or UNTAGGED) / f"{hashlib.sha256(hashes[-1]).hexdigest()[:32]}.safetensors"
        tensors = _tensors(blocks, rows)
        metadata = {
            "format": str(FORMAT),
            "fingerprint": self.fingerprint,
            "rows": str(rows),
            "partial": str(int(partial)),
            "hashes": "".join(digest.hex() for digest in hashes),
            "checksums": json.dumps({name: _checksum(tensor) for name, tensor in tensors.items()}),
        }
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._make_room(size)
            save_file(tensors, str(part), metadata)
            part.replace(path)
            file = PrefixFile(path, rows, tuple(hashes), path.stat().st_size, partial)
        except (OSError, SafetensorError) as error:
            with suppress(OSError):
                part.unlink()
            raise EngineError(
                f"the prefix cannot be written to {path.parent} ({error}): free {size >> 20} MB there, or turn the "
                "disk cache off with engine.prefix_disk_gb = 0"
            ) from error
        with self._lock:
            self._add(file)
            self._sound.add(path)
            for other in [each for each in self._files.values() if each.partial and each.rows < rows]:
                whole = other.rows // HASH_BLOCK
                if other.hashes[:whole] == file.hashes[:whole]:
                    self._drop(other)
                    with suppress(OSError):
                        other.path.unlink()
        return file

    def forget(self, tag: str) -> tuple[int, int]:
        """Deletes every file of a tag; returns how many and their bytes."""
        folder = self.folder / tag
        count = size = 0
        for path in folder.glob("*.safetensors") if folder.is_dir() else ():
            size += path.stat().st_size
            count += 1
            path.unlink(missing_ok=True)
            with self._lock:
                if (file := self._files.get(path)) is not None:
                    self._drop(file)
        return count, size

    def _scan(self) -> None:
        for path in sorted(self.folder.glob("*/*")):
            if path.suffix == ".part" or path.name.startswith(".tmp"):
                # Of a writer that was killed; safetensors has a temporary name of its own.
                with suppress(OSError):
                    if time.time() - path.stat().st_mtime > 3600:
                        path.unlink()
            elif path.suffix == ".safetensors" and (file := self._read_header(path)) is not None:
                self._add(file)

    def _read_header(self, path: Path) -> PrefixFile | None:
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(str(path), framework="pt") as opened:
                metadata = opened.metadata() or {}
            if metadata.get("format") != str(FORMAT) or metadata.get("fingerprint") != self.fingerprint:
                return None
            text = metadata["hashes"]
            step = 2 * HASH_BYTES
            hashes = tuple(bytes.fromhex(text[at : at + step]) for at in range(0, len(text), step))
            partial = metadata.get("partial") == "1"
            return PrefixFile(path, int(metadata["rows"]), hashes, path.stat().st_size, partial)
        except (OSError, SafetensorError, KeyError, ValueError) as error:
            logger.warning("the cached prefix %s cannot be read (%s); it is not used", path, error)
            return None

    def _add(self, file: PrefixFile) -> None:
        self._files[file.path] = file
        for index, digest in enumerate(file.hashes):
            self._by_hash.setdefault(digest, (file, min((index + 1) * HASH_BLOCK, file.rows)))

    def _drop(self, file: PrefixFile) -> None:
        self._files.pop(file.path, None)
        self._sound.discard(file.path)
        self._by_hash = {digest: found for digest, found in self._by_hash.items() if found[0].path != file.path}
        for other in self._files.values():
            self._add(other)

    def _make_room(self, size: int) -> None:
        found = [(path.stat().st_mtime, path.stat().st_size, path) for path in self.folder.glob("*/*.safetensors")]
        total = sum(bytes_ for _, bytes_, _ in found)
        for _, bytes_, path in sorted(found):
            if total + size <= self.limit_bytes:
                return
            logger.info("deleting the cached prefix %s to make room", path)
            with self._lock:
                if (file := self._files.get(path)) is not None:
                    self._drop(file)
            path.unlink(missing_ok=True)
            total -= bytes_


def _tensors(blocks: Sequence[RowBlock], rows: int) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    for layer, block in enumerate(blocks):
        for name, tensor in (
            ("key", block.keys),
            ("value", block.values),
            ("key_scale", block.key_scales),
            ("value_scale", block.value_scales),
        ):
            if tensor is not None:
                found[f"{name}.{layer}"] = tensor[:, :rows].cpu().contiguous()
    return found


def _checksum(tensor: torch.Tensor) -> int:
    raw: Any = tensor.contiguous().view(torch.uint8).numpy()
    return zlib.crc32(memoryview(raw).cast("B"))
