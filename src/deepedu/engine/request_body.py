"""What every route does with a request: read it, check it, and say what was wrong with it."""

from typing import Any

from fastapi import Request

from deepedu.base.errors import DeepEduError, EngineBusy, EngineDraining, EngineError, RequestRefused
from deepedu.engine.engine import Engine

# A window of a million tokens is about 4 MB of text; more than this is no prompt.
MAX_BODY_BYTES = 32 << 20


def check_model(engine: Engine, name: str) -> None:
    """Raises ``RequestRefused`` for a model that is not served here."""
    if name not in engine.names:
        known = ", ".join(repr(each) for each in engine.names)
        raise RequestRefused(
            f"there is no model {name!r} here, this server has {known}",
            param="model",
            kind="model_not_found",
            status=404,
        )


def check_servable(engine: Engine, name: str) -> None:
    """Raises what keeps a request for this model from being served now."""
    if engine.status == "draining":
        raise EngineDraining("the server is shutting down and takes no new requests: ask another or come back")
    if engine.status == "failed":
        raise EngineError(f"the model could not be loaded: {engine.failure}")
    check_model(engine, name)
    engine.loaded  # noqa: B018 - refuses while loading


async def read_body(request: Request) -> bytes:
    """The body; raises ``RequestRefused`` where it is too large."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise RequestRefused(
                f"the body is larger than {MAX_BODY_BYTES} bytes", kind="request_too_large", status=413
            )
    return bytes(body)


def status_of(error: DeepEduError) -> int:
    """The HTTP status of an error."""
    return error.status if isinstance(error, RequestRefused) else error.http_status


def error_object(error: DeepEduError) -> dict[str, Any]:
    """OpenAI's error object."""
    refused = status_of(error) < 500
    kind = "invalid_request_error" if refused else "server_error"
    return {
        "message": str(error),
        "type": "rate_limit_error" if isinstance(error, EngineBusy) else kind,
        "param": error.param if isinstance(error, RequestRefused) else None,
        "code": error.kind if isinstance(error, RequestRefused) else error.code,
    }
