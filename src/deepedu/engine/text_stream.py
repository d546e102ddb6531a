"""Tokens to text while they come: never half a character, never a stop string."""

from collections.abc import Sequence
from typing import Any

REPLACEMENT = "\ufffd"


class Detokenizer:
    """Turns token ids into text as they arrive.

    A Vietnamese letter takes up to three bytes, and byte-level vocabularies may split it over tokens: text is held
    back until its last character is whole. Constant work per token: only the tokens since the last emitted text, and
    those of the piece before it (some vocabularies join neighbours), are decoded again.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        # Tokens before _emitted are out; those from _context on are decoded together with new ones.
        self._context = self._emitted = 0

    def push(self, token_id: int) -> str:
        """The text that became certain with this token; often empty in the middle of a character."""
        self._ids.append(token_id)
        known = self._decode(self._ids[self._context : self._emitted])
        text = self._decode(self._ids[self._context :])
        if text.endswith(REPLACEMENT) or len(text) <= len(known):
            return ""
        self._context, self._emitted = self._emitted, len(self._ids)
        return text[len(known) :]

    def flush(self) -> str:
        """What was held back at the end, without an unfinished character."""
        known = self._decode(self._ids[self._context : self._emitted])
        return self._decode(self._ids[self._context :])[len(known) :].rstrip(REPLACEMENT)

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


class StopFilter:
    """Passes text on until a stop string appears; holds back what may yet become one."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.stopped = False

    def push(self, text: str) -> str:
        """The part of the text so far that is certain to stand before any stop string."""
        text = self._held + text
        found = [(start + len(stop), start) for stop in self._stops if (start := text.find(stop)) >= 0]
        if found:
            # The one that is complete first, so that the result does not depend on how the text was cut into pieces.
            self.stopped, self._held = True, ""
            return text[: min(found)[1]]
        hold = max((self._overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - hold :]
        return text[: len(text) - hold]

    def flush(self) -> str:
        """What was held back, when no more text comes."""
        held, self._held = self._held, ""
        return held

    @staticmethod
    def _overlap(text: str, stop: str) -> int:
        longest = min(len(stop) - 1, len(text))
        return next((size for size in range(longest, 0, -1) if text.endswith(stop[:size])), 0)
