# pyright: reportMissingImports=false
"""vLLM with a tiny model in a process of its own: ``python host.py ORDERS RESULT``, both JSON files.

``ORDERS``: ``folder``, ``prompts`` (token ids), ``together`` (whether they are asked at once), ``more`` (arguments of
``LLM``), ``cuda`` (the backend for CUDA that stands in the place of the one for CPUs, or null). ``RESULT``: for each
prompt its ``tokens`` and the log-probabilities of the likeliest first tokens, and every choice of rows as
``[layer, row of the first query, rows of each head]``.
"""

import json
import sys
from pathlib import Path
from typing import Any

from chosen_rows import telling
from cuda_on_cpu import put_in_place
from vllm import LLM, SamplingParams

from deepedu.engine.vllm_plugin import attention_of

PART, REQUESTS = 512, 8


def main(orders_path: str, result_path: str) -> None:
    """Asks and writes."""
    orders = json.loads(Path(orders_path).read_text(encoding="utf-8"))
    choices: list[Any] = []
    attention = attention_of()
    if attention is not None:
        kind = type(attention.make()[0])
        kind.select = telling(kind.select, choices)  # type: ignore[method-assign]
    if orders["cuda"]:
        put_in_place(orders["cuda"])
    more: dict[str, Any] = {"dtype": "float32"}
    more |= {"max_num_batched_tokens": PART + REQUESTS, "max_num_seqs": REQUESTS, "enable_prefix_caching": False}
    llm = LLM(
        model=orders["folder"],
        skip_tokenizer_init=True,
        enforce_eager=True,
        max_model_len=4096,
        **{**more, **orders["more"]},
    )
    sampling = SamplingParams(temperature=0, max_tokens=8, logprobs=20, detokenize=False)
    prompts: Any = [{"prompt_token_ids": prompt} for prompt in orders["prompts"]]
    runs = [prompts] if orders["together"] else [[prompt] for prompt in prompts]
    outputs = [each.outputs[0] for run in runs for each in llm.generate(run, sampling, use_tqdm=False)]
    answers = [
        {
            "tokens": list(each.token_ids),
            "first": {str(token): value.logprob for token, value in (each.logprobs or [])[0].items()},
        }
        for each in outputs
    ]
    Path(result_path).write_text(json.dumps({"answers": answers, "choices": choices}), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
