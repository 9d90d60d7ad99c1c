"""The processes that fit one network together, as the loop sees them: one, or several by gloo.

Each does its part of every batch; the first (rank 0) speaks, validates and writes checkpoints. What
all must decide alike (a loss that is no number, a stop, a checkpoint) is summed over them first.
"""

from datetime import timedelta
from typing import Protocol

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined]  # torch exports it in words only
from torch.nn.parallel import DistributedDataParallel

SILENCE_S = 1800.0
"""How long one waits for the others: rank 0 validates and writes while they wait. A rank that ends
is noticed at once, by its closed connection.
"""
JOIN_S = 120.0
"""How long ranks on other machines may take until they are there."""


class Ranks(Protocol):
    """`rank` of `count`, from 0."""

    rank: int
    count: int

    def wrapped(self, model: nn.Module) -> nn.Module:
        """What the loss calls; its backward pass averages gradients over all."""

    def summed(self, values: tuple[float, ...]) -> tuple[float, ...]:
        """The sum over all ranks, the same bits in each."""

    def first(self, values: tuple[float, ...]) -> tuple[float, ...]:
        """Rank 0's."""

    def first_bytes(self, content: bytes | None) -> bytes | None:
        """Rank 0's."""

    def gathered(self, state: Tensor) -> Tensor:
        """[count, n] of each rank's uint8 [n]."""


class Alone:
    rank, count = 0, 1

    def wrapped(self, model: nn.Module) -> nn.Module:
        return model

    def summed(self, values: tuple[float, ...]) -> tuple[float, ...]:
        return values

    def first(self, values: tuple[float, ...]) -> tuple[float, ...]:
        return values

    def first_bytes(self, content: bytes | None) -> bytes | None:
        return content

    def gathered(self, state: Tensor) -> Tensor:
        return state[None]


class Together:
    """By `torch.distributed`, whose process group is there already (`join_local`, `join`)."""

    def __init__(self) -> None:
        self.rank, self.count = dist.get_rank(), dist.get_world_size()

    def wrapped(self, model: nn.Module) -> nn.Module:
        return DistributedDataParallel(model)

    def summed(self, values: tuple[float, ...]) -> tuple[float, ...]:
        tensor = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(tensor)
        return tuple(tensor.tolist())

    def first(self, values: tuple[float, ...]) -> tuple[float, ...]:
        tensor = torch.tensor(values, dtype=torch.float64)
        dist.broadcast(tensor, src=0)
        return tuple(tensor.tolist())

    def first_bytes(self, content: bytes | None) -> bytes | None:
        (size,) = self.first((-1.0 if content is None else float(len(content)),))
        if size < 0:
            return None
        tensor = torch.zeros(int(size), dtype=torch.uint8)
        if content:
            tensor = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        dist.broadcast(tensor, src=0)
        return tensor.numpy().tobytes()

    def gathered(self, state: Tensor) -> Tensor:
        parts = [torch.empty_like(state) for _ in range(self.count)]
        dist.all_gather(parts, state)
        return torch.stack(parts)


def join_local() -> None:
    """Make the process group as torchrun says in the environment. Blocks until all are there."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=SILENCE_S))


def listen(address: str, count: int) -> TCPStore:
    """Where the others of `count` ranks meet rank 0, whose machine has `address`; on a free port."""
    return TCPStore(
        address, 0, count, is_master=True, timeout=timedelta(seconds=JOIN_S), wait_for_workers=False
    )


def reach(address: str, port: int, count: int) -> TCPStore:
    """The other end of `listen`."""
    return TCPStore(address, port, count, is_master=False, timeout=timedelta(seconds=JOIN_S))


def join(store: TCPStore, rank: int, count: int) -> None:
    """Make the process group over a network. Blocks until all are there, or `JOIN_S` is over."""
    dist.init_process_group(
        "gloo", store=store, rank=rank, world_size=count, timeout=timedelta(seconds=SILENCE_S)
    )


def leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def is_lost(error: BaseException) -> bool:
    """Whether it is what gloo raises when another rank ended: a plain `RuntimeError` from its C++."""
    return isinstance(error, dist.DistError) or (
        isinstance(error, RuntimeError) and "gloo" in str(error).lower()
    )


def ranks() -> Ranks:
    """Those of this process: `Together` once it has joined others, else `Alone`."""
    if dist.is_available() and dist.is_initialized():
        return Together()
    return Alone()
