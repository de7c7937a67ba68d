"""A file system as a kit: content under the hash of it, in one folder. So benchmarks of kits measure
local disks, object stores and caches before them: whatever fsspec, or something like it, opens."""

from __future__ import annotations

import hashlib
import importlib
from typing import Any


class FileSystemKit:
    """fs: with pipe() or pipe_file(), cat() and rm(), as fsspec's have. What was added is removed by
    remove()."""

    def __init__(self, fs: Any, folder: str) -> None:
        for methods in (("pipe", "pipe_file"), ("cat",), ("rm",)):
            if not any(callable(getattr(fs, name, None)) for name in methods):
                raise TypeError(f"{type(fs).__name__} cannot be measured: it has no {methods[0]}()")
        self.fs = fs
        self.folder = folder.rstrip("/")
        self._write = getattr(fs, "pipe_file", None) or fs.pipe
        self._added: set[str] = set()
        if callable(getattr(fs, "makedirs", None)):
            fs.makedirs(self.folder, exist_ok=True)

    def ipfs_add_file(self, path: str) -> dict[str, Any]:
        with open(path, "rb") as source:
            content = source.read()
        name = f"{self.folder}/{hashlib.sha256(content).hexdigest()}"
        self._write(name, content)
        self._added.add(name)
        return {"success": True, "cid": name, "size": len(content)}

    def ipfs_cat(self, cid: str) -> Any:
        return self.fs.cat(cid)

    def get_filesystem(self) -> Any:
        return self.fs

    def remove(self) -> None:
        """Everything that was added."""
        while self._added:
            self.fs.rm(self._added.pop())


def open_kit(text: str) -> FileSystemKit:
    """PROTOCOL:FOLDER, by fsspec: file:/tmp/bench, memory:/bench. ValueError says what is wrong."""
    protocol, colon, folder = text.partition(":")
    if not colon or not folder.strip("/"):
        raise ValueError(f"{text!r} is not PROTOCOL:FOLDER")
    try:
        fsspec = importlib.import_module("fsspec")
    except ImportError:
        raise ValueError("file systems are opened by fsspec: apt-get install python3-fsspec") from None
    try:
        return FileSystemKit(fsspec.filesystem(protocol), folder)
    except (ImportError, OSError, TypeError, ValueError) as failed:
        raise ValueError(f"{text!r}: {failed}") from failed
