"""Replies kept between runs: a run of hours that was killed goes on where it was."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

_EDGE_BYTES = 1 << 20


class KeptAnswers:
    """Replies by everything they depend on: the model, the method, and the very tokens of context and question.

    Each is one JSON line of ``file``, appended when it is there; a line cut short by a killed run is passed over.

    Args:
        identity: names the model, its weights, and how they are run.
        fresh: what the file holds is not used.
    """

    def __init__(self, identity: str, file: Path, *, fresh: bool = False) -> None:
        self._identity = identity
        self._file = file
        self._replies: dict[str, list[int]] = {}
        self._needs_newline = False
        self.used = 0
        self.added = 0
        if file.is_file():
            text = file.read_text(encoding="utf-8")
            self._needs_newline = bool(text) and not text.endswith("\n")
            if not fresh:
                for line in text.splitlines():
                    try:
                        entry = json.loads(line)
                        self._replies[entry["key"]] = [int(token_id) for token_id in entry["reply"]]
                    except (ValueError, KeyError, TypeError):
                        continue

    def key(self, spec: str, context_ids: Sequence[int], question_ids: Sequence[int], max_tokens: int) -> str:
        """What one reply is kept under."""
        what = json.dumps([self._identity, spec, _digest(context_ids), _digest(question_ids), max_tokens])
        return hashlib.sha256(what.encode()).hexdigest()

    def get(self, key: str) -> list[int] | None:
        """The reply, or None where it has to be computed."""
        reply = self._replies.get(key)
        self.used += reply is not None
        return reply

    def holds(self, key: str) -> bool:
        """Whether there is a reply."""
        return key in self._replies

    def add(self, key: str, reply: Sequence[int]) -> None:
        """Keeps a reply, at once."""
        self._replies[key] = list(reply)
        self.added += 1
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a", encoding="utf-8") as out:
            out.write(("\n" if self._needs_newline else "") + json.dumps({"key": key, "reply": list(reply)}) + "\n")
        self._needs_newline = False


def weights_digest(folder: Path) -> str:
    """Tells models of two folders apart: configuration, tokenizer, and size, beginning and end of the weights files."""
    digest = hashlib.sha256()
    for name in ("config.json", "tokenizer.json", "chat_template.jinja", "tokenizer_config.json"):
        if (folder / name).is_file():
            digest.update((folder / name).read_bytes())
    for file in sorted(folder.glob("*.safetensors")):
        size = file.stat().st_size
        digest.update(f"{file.name} {size}".encode())
        with file.open("rb") as weights:
            digest.update(weights.read(_EDGE_BYTES))
            weights.seek(max(0, size - _EDGE_BYTES))
            digest.update(weights.read())
    return digest.hexdigest()[:16]


def _digest(token_ids: Sequence[int]) -> str:
    return hashlib.sha256(" ".join(map(str, token_ids)).encode()).hexdigest()
