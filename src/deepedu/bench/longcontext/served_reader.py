"""Reads contexts on a running server that keeps what it computed of a prompt's beginning."""

from collections.abc import Sequence

import httpx

from deepedu.base.errors import EngineError
from deepedu.bench.peer import REPLY_LIMIT_S, Peer


class ServedReader:
    """A ``ContextReader``: the first question has the context read, the others find its rows there.

    Args:
        peer: a server of vLLM with its prefix cache on.
        spec: see ``ContextReader``.
    """

    def __init__(self, peer: Peer, spec: str) -> None:
        self._peer, self.spec = peer, spec
        self._context: Sequence[int] = ()

    def read(self, context_ids: Sequence[int]) -> None:
        """See ``ContextReader``; nothing is computed yet."""
        self._context = context_ids

    def answer(self, question_ids: Sequence[int], max_tokens: int) -> list[int]:
        """See ``ContextReader``.

        Raises:
            EngineError: the server refused or broke off.
        """
        body = {
            "model": self._peer.model,
            "prompt": [*self._context, *question_ids],
            "max_tokens": max_tokens,
            "temperature": 0,
            "return_token_ids": True,
        }
        try:
            response = httpx.post(
                f"{self._peer.url}/v1/completions", json=body, trust_env=False, timeout=httpx.Timeout(REPLY_LIMIT_S)
            )
        except httpx.HTTPError as error:
            raise EngineError(f"{self._peer.name} did not answer: {type(error).__name__} {error}") from error
        if response.status_code != 200:
            raise EngineError(f"{self._peer.name} answered {response.status_code}: {response.text[:300]!r}")
        (choice,) = response.json()["choices"]
        reply = [int(each) for each in choice["token_ids"]]
        return reply[:-1] if choice["finish_reason"] == "stop" else reply
