"""A prompt as the engine takes it in."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Source = Literal["memory", "disk"]


@dataclass(frozen=True)
class Prompt:
    """A prompt in tokens.

    ``shared_tokens`` at its beginning may serve everyone; ``owner`` is whose the rest is (None: nobody's, so nothing of
    it is kept). ``question_from``: where the last user turn begins, None if unknown. ``tag`` groups what is on disk.
    """

    ids: Sequence[int]
    shared_tokens: int = 0
    owner: str | None = None
    question_from: int | None = None
    tag: str | None = None

    def __post_init__(self) -> None:
        assert 0 <= self.shared_tokens <= len(self.ids), "the shared tokens are some of the prompt's"
