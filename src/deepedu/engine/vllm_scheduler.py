# pyright: reportMissingImports=false
"""vLLM's scheduler, with every prompt cut at the same places whatever else runs.

A method chooses rows block by block within a part of a prompt. vLLM gives a prompt whatever room a step has left, so
the same prompt would be cut, and answered, differently beside other requests.
"""

from typing import Any

from vllm.platforms import current_platform
from vllm.v1.core.sched.async_scheduler import AsyncScheduler

from deepedu.engine.vllm_plugin import check_cuda_backend, part_tokens


class PartScheduler(AsyncScheduler):
    """Cuts prompts at multiples of as many tokens as fit into a step beside a decode step of every other request.

    A part waits for a step that has room for all of it: one prompt is read after the other.

    Raises:
        ConfigError: a step has no room for a part; or vLLM is left to choose the backend, on a GPU.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not current_platform.is_cpu():
            backend = self.vllm_config.attention_config.backend
            check_cuda_backend(None if backend is None else backend.name)
        self.part_tokens = part_tokens(self.max_num_scheduled_tokens, self.max_num_running_reqs)
        # vLLM's own hook for prompts that may only be cut in certain places.
        self.need_mamba_block_aligned_split = True

    def _mamba_block_aligned_split(
        self,
        request: Any,
        num_new_tokens: int,
        num_new_local_computed_tokens: int = 0,
        num_external_computed_tokens: int = 0,
    ) -> int:
        start: int = request.num_computed_tokens + num_new_local_computed_tokens + num_external_computed_tokens
        end: int = max(request.num_prompt_tokens, request.num_tokens - 1)
        if start >= end:
            return num_new_tokens
        wanted = min(end, (start // self.part_tokens + 1) * self.part_tokens) - start
        return wanted if num_new_tokens >= wanted else 0
