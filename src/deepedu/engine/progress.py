"""Events of long work (download, conversion, loading), drawn by whoever called."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Stage = Literal["wait", "download", "assemble", "convert", "load"]


@dataclass(frozen=True)
class Progress:
    """``done`` of ``total`` ``unit``; ``total`` is None where it cannot be known beforehand.

    ``stage`` ``wait`` means that another process does the same work and this one waits for it.
    """

    stage: Stage
    done: int
    total: int | None
    unit: Literal["bytes", "tensors", "steps"]
    detail: str


class Stopped(BaseException):
    """What a sink raises to stop the work, which then leaves nothing half-made behind.

    No ``Exception``, so that no library between the sink and us takes it for a fault of its own.
    """


# Called from the working thread.
ProgressSink = Callable[[Progress], None]


def ignore(event: Progress) -> None:
    """A sink for callers that show nothing."""
    del event
