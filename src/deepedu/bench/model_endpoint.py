"""The model that a bench asks: the endpoint that the settings name, else an engine of its own."""

from contextlib import AsyncExitStack

from deepedu.bench.run import BenchContext
from deepedu.llm.client import ChatClient
from deepedu.server.engine_process import EngineProcess


async def bench_endpoint(context: BenchContext, stack: AsyncExitStack) -> tuple[ChatClient, str]:
    """A client, open until ``stack`` closes, and what names the model and how it is run: kept replies belong to it."""
    settings = context.settings
    url, how = settings.llm.url, ""
    if url is None:
        engine = EngineProcess(settings.engine.model_copy(update={"port": 0}))
        stack.push_async_callback(engine.stop)
        with context.console.status(f"starting {settings.engine.model}"):
            await engine.start()
            await engine.wait_ready()
        own = settings.engine
        # Whatever else changes the words of a greedy reply.
        how = f"{own.dtype} {own.weights} {own.method} {own.method_set} {own.budget_tokens} {own.kv_rows}"
        url = engine.url
    client = await stack.enter_async_context(ChatClient(settings.llm.model_copy(update={"url": url})))
    return client, f"{await client.model()} {how}".strip()
