"""A kit whose file system counts what it does.

The kit itself is the program's: ipfs_kit(kit=…), or a factory for all, use(factory). Without either
it is the IPFS daemon of this machine, by Kubo's RPC interface."""

from __future__ import annotations

from typing import Any, Callable

from sonde.kubo import Kubo
from sonde.wrap import wrap_fs

_factory: Callable[..., Any] | None = None


def use(factory: Callable[..., Any] | None) -> None:
    """What ipfs_kit() makes its kit by, from now on; it is called with ipfs_kit()'s options. None:
    the daemon again."""
    global _factory
    _factory = factory


class ipfs_kit:  # the name that programs import
    """All of the kit's own methods, and get_filesystem() that measures."""

    def __init__(self, kit: Any = None, daemon_port: int | None = None, **options: Any) -> None:
        if kit is None and _factory is not None:
            kit = _factory(**options)
        self.kit = Kubo(daemon_port or 5001) if kit is None else kit

    def __getattr__(self, name: str) -> Any:
        if name == "kit":  # not made yet
            raise AttributeError(name)
        return getattr(self.kit, name)

    def get_filesystem(self, enable_metrics: bool = True, **options: Any) -> Any:
        """The kit's file system, made with these options (cache_config, use_mmap …). With
        enable_metrics it is wrapped (sonde.wrap_fs): get_performance_metrics() has its figures."""
        fs = self.kit.get_filesystem(**options)
        return wrap_fs(fs) if enable_metrics else fs
