"""Puts a context and its questions into the model's chat format, so that all questions share one prefix of tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deepedu.base.errors import Unsupported
from deepedu.bench.longcontext.case import Count, Question

_SPLIT = "\u241e\u241e"


@dataclass(frozen=True)
class ChatFormat:
    """The text of a user turn around its content; from a tokenizer by :meth:`of`.

    The context begins the user turn. The question ends it, then the reply is begun with the question's ``prefix``.
    Context and question are tokenised apart: the tokens of the context are the same for every question.
    """

    tokenizer: Any
    before: str
    after: str

    @classmethod
    def of(cls, tokenizer: Any) -> "ChatFormat":
        """Raises: Unsupported: the tokenizer has no chat template, or one that loses what it is given."""
        try:
            text = tokenizer.apply_chat_template(
                [{"role": "user", "content": _SPLIT}], tokenize=False, add_generation_prompt=True, enable_thinking=False
            )
        except ValueError as error:
            raise Unsupported("the model's tokenizer has no chat template: use an instruction-tuned model") from error
        before, split, after = str(text).partition(_SPLIT)
        if not split:
            raise Unsupported(f"the model's chat template does not show the user's text: it gave {text!r}")
        return cls(tokenizer, before, after)

    def context_ids(self, context: str) -> list[int]:
        """Tokens up to the end of the context."""
        return self._ids(self.before + context)

    def question_ids(self, question: Question) -> list[int]:
        """Tokens from there to where the reply goes on."""
        return self._ids(f"\n\n{question.text}{self.after}{question.prefix}")

    def counter(self) -> Count:
        """Tokens of a text."""
        return lambda text: len(self._ids(text))

    def text(self, token_ids: Sequence[int]) -> str:
        """A reply in words."""
        return str(self.tokenizer.decode(list(token_ids), skip_special_tokens=True))

    def _ids(self, text: str) -> list[int]:
        # Through the backend: the outer call warns about texts longer than the window, which are only being counted.
        return list(self.tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids)
