"""Computing a shared prefix ahead of time, so that the first question over it finds it there."""

from collections.abc import Sequence

from deepedu.engine.events import Warmed, WarmProgress
from deepedu.engine.prompt import Prompt
from deepedu.engine.runner import Runner, Running


class Warming:
    """Computes the shared tokens of a prompt and nothing else; interrupted, it leaves what it has to the next one."""

    def __init__(self, runner: Runner, prompt: Prompt) -> None:
        self._runner = runner
        self._prompt = Prompt(prompt.ids[: prompt.shared_tokens], prompt.shared_tokens, tag=prompt.tag)
        self.running: Running | None = None
        self.finished = False

    @property
    def prefilling(self) -> bool:
        """Until it is finished."""
        return not self.finished

    def begin(self) -> bool:
        """Takes memory; false while there is none."""
        self.running = self._runner.begin(self._prompt, 0)
        return self.running is not None

    def prefill(self, limit_tokens: int) -> Sequence[WarmProgress | Warmed]:
        """Computes a slice."""
        running = self.running
        assert running is not None, "begin comes first"
        if running.shared is None:
            self._runner.prefill(running, limit_tokens)
        progress = WarmProgress(running.done_tokens, len(self._prompt.ids))
        if running.shared is None:
            return [progress]
        self.finished = True
        return [progress, Warmed(running.shared)]

    def cancel(self) -> Sequence[WarmProgress]:
        """Ends where it is."""
        self.finished = True
        return []

    def end(self) -> None:
        """Gives memory back; what is computed stays in the cache."""
        running, self.running = self.running, None
        if running is not None:
            self._runner.end(running)
