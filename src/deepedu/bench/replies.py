"""Replies of a greedy model, kept between runs: asking again would give the same words an hour later.

A change in grounding can so be measured on the very drafts it was made for. A record always tells how many replies
were kept ones.
"""

import hashlib
import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import asdict
from pathlib import Path

from deepedu.llm.chat import ChatModel, Delta, Finished, Message


class KeptReplies:
    """Asks ``model`` only for what ``file`` does not hold yet. Each reply is one JSON line, appended when complete.

    Args:
        identity: names the model and how it is run; replies of another identity are not used.
    """

    def __init__(self, model: ChatModel, identity: str, file: Path, *, fresh: bool = False) -> None:
        self._model = model
        self._identity = identity
        self._file = file
        self._kept: dict[str, dict[str, object]] = {}
        self.used = 0
        self.asked = 0
        if file.is_file() and not fresh:
            for line in file.read_text(encoding="utf-8").splitlines():
                try:
                    entry = json.loads(line)
                    self._kept[entry["key"]] = entry
                except (ValueError, KeyError, TypeError):
                    continue  # The last line of a run that was killed.

    async def stream(
        self, messages: Sequence[Message], *, max_tokens: int, owner: str | None = None
    ) -> AsyncGenerator[Delta | Finished, None]:
        """See ``ChatModel.stream``; a kept reply comes in one piece, with the times it took then."""
        asked = [{"role": m.role, "content": m.text} for m in messages]
        question = json.dumps([self._identity, max_tokens, asked], ensure_ascii=False)
        key = hashlib.sha256(question.encode()).hexdigest()
        if key not in self._kept:
            text, finished = "", None
            async for event in self._model.stream(messages, max_tokens=max_tokens, owner=owner):
                if isinstance(event, Delta):
                    text += event.text
                else:
                    finished = asdict(event)
            self.asked += 1
            self._kept[key] = {"key": key, "text": text, "finished": finished}
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a", encoding="utf-8") as out:
                out.write(json.dumps(self._kept[key], ensure_ascii=False) + "\n")
        else:
            self.used += 1
        entry = self._kept[key]
        yield Delta(str(entry["text"]))
        finished = entry["finished"]
        assert isinstance(finished, dict)
        yield Finished(**finished)
