"""What the loop learns from: one question with its answer, and what told how good it was."""

from typing import Literal

from pydantic import Field

from deepedu.playbook.bullet import BulletId, BulletScope, Language, Value

SignalKind = Literal["thumbs_up", "thumbs_down", "wrong", "correction", "quiz", "grounding", "execution"]


class Signal(Value):
    """Something that tells how good an answer was, from outside the model.

    ``good``: whether it speaks for the answer. ``detail``: in words, such as the teacher's correction or the failed
    check's reason.
    """

    kind: SignalKind
    good: bool
    detail: str = ""


class Interaction(Value):
    """A question, its answer, and the signals about it.

    ``reference`` tells nothing about who asked. ``expected`` is the right answer where it is known. ``shown`` are the
    bullets that the model was given, ``used`` those among them that its answer names.
    """

    reference: str = Field(min_length=1)
    question: str
    answer: str
    expected: str | None = None
    language: Language = "vi"
    scope: BulletScope = BulletScope()
    shown: tuple[BulletId, ...] = ()
    used: tuple[BulletId, ...] = ()
    signals: tuple[Signal, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether there is something to learn: any signal against the answer. Without a signal there is not."""
        return any(not signal.good for signal in self.signals)

    @property
    def succeeded(self) -> bool:
        """Whether all signals, one at least, speak for the answer."""
        return bool(self.signals) and not self.failed
