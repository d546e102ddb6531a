"""A GPU that is not there: tensors that say they lie on another device and are computed on the CPU.

What code does with devices can be held against it: an operation that meets tensors of both sides fails as it would on a
real one. Speed, memory and kernels of a GPU are another matter. The device's name is ``meta``, the only other one that
a build of torch for CPUs hands out.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

THERE = torch.device("meta")
_AT_HOME = torch.device("cpu")
# They bring tensors from one side to the other.
_MOVING = {torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default}
# Their indices may lie on the CPU.
_INDEXING = {
    torch.ops.aten.index.Tensor,
    torch.ops.aten.index_put_.default,
    torch.ops.aten.index_put.default,
    torch.ops.aten._index_put_impl_.default,
}


class _Placed(Tensor):
    """A tensor as the GPU has it; ``computed`` is where the CPU works."""

    computed: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> "_Placed":
        made = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=THERE,
        )
        made.computed = inner
        return made

    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(_with_places(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(_with_places(index), value)

    def tolist(self) -> Any:
        """Torch does not do this for subclasses."""
        return self.computed.tolist()

    def __repr__(self) -> str:  # type: ignore[override]
        return f"{self.computed!r} on a pretended GPU"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


def _with_places(index: Any) -> Any:
    """An index whose lists are tensors: torch would make them on the device, which has no memory."""
    if isinstance(index, tuple):
        return tuple(_with_places(each) for each in index)
    return _Placed(torch.tensor(index)) if isinstance(index, list) else index


class PretendGPU(TorchDispatchMode):
    """Inside, tensors may be made on that device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensors = [each for each in tree_flatten((args, kwargs))[0] if isinstance(each, Tensor)]
    asked = kwargs.get("device")
    if asked is not None:
        there = torch.device(asked).type == THERE.type
        kwargs = {**kwargs, "device": _AT_HOME}
    else:
        there = any(isinstance(each, _Placed) for each in tensors)
        if func in _MOVING:
            # A copy goes where its target is.
            there = isinstance(tensors[0], _Placed)
        elif there:
            _check(func, args, tensors)
    # What a scalar holds, everybody may ask for; that waits for the GPU, and is no mistake.
    if func is torch.ops.aten._local_scalar_dense.default:
        there = False
    before = {id(each.computed): each for each in tensors if isinstance(each, _Placed)}
    found = func(*tree_map(_inner, args), **tree_map(_inner, kwargs))

    def outer(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        # Written in place: the same tensor as before.
        if id(value) in before:
            return before[id(value)]
        return _Placed(value) if there else value

    return tree_map(outer, found)


def _check(func: Any, args: Any, tensors: Iterable[Tensor]) -> None:
    if func in _INDEXING:
        tensors = [args[0], *args[2:3]] if len(args) > 2 else [args[0]]
    for each in tensors:
        if isinstance(each, Tensor) and not isinstance(each, _Placed) and each.dim() > 0:
            raise RuntimeError(
                f"{func}: expected all tensors on one device, found one of shape {each.shape} on the CPU"
            )


def _inner(value: Any) -> Any:
    return value.computed if isinstance(value, _Placed) else value


def on_gpu(tensor: Tensor) -> Tensor:
    """The tensor, as the GPU has it."""
    return _Placed(tensor)


def fetched(tensor: Tensor) -> Tensor:
    """What the GPU has.

    Raises:
        AssertionError: the tensor is on the CPU.
    """
    assert isinstance(tensor, _Placed), "this should lie on the GPU"
    return tensor.computed


def everywhere(compute: Callable[[Callable[[Tensor], Tensor]], Tensor]) -> tuple[Tensor, Tensor]:
    """What ``compute`` finds on the CPU and on the GPU; it is given what puts its tensors there."""
    here = compute(lambda tensor: tensor)
    with PretendGPU():
        there = compute(on_gpu)
    return here, fetched(there)
