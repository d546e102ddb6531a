"""Every error that DeepEdu raises on purpose.

DeepEduError
├── ConfigError              a setting, flag or environment variable is wrong
│   ├── UnknownMethod        no attention method of that name
│   └── BudgetError          a token or memory budget that cannot hold
├── BadRequest               a question, file or parameter that cannot be taken as it is
├── AccessDenied             a request to a part that is not open to everybody
│   ├── AccessClosed         nobody was given a key to it yet
│   ├── WrongKey             it came without the key, or with another one
│   ├── NotSignedIn          nobody is signed in, or not any more
│   ├── WrongPassword        no such account, or another password
│   ├── AccountLocked        too many wrong passwords, with ``retry_after_s``
│   ├── NotAllowed           signed in, but not open to this role, or not this person's
│   └── ForeignOrigin        sent by a page of another site
├── Unsupported              what was asked for exists, but not with this model, machine or method
├── MissingExtra             an optional part of DeepEdu is not installed
├── StoreError               the database or the data folder
│   ├── NotFound             no book, lesson or conversation of that id
│   ├── KeyDestroyed         it was deleted: the key that it was sealed with is gone
│   └── StoreBusy            another process holds what was asked for
├── IngestError              one document could not be read; the others go on
│   ├── UnsupportedFormat    not a document of a known format
│   ├── EncryptedDocument    needs a password
│   ├── DamagedDocument      truncated or corrupt
│   ├── EmptyDocument        zero bytes, or no text in it
│   └── DocumentTooLarge     above the size limit
├── SearchError              an embedder or index failed
├── ModelError               the engine's model
│   ├── ModelNotAvailable    not in the cache and not to be had
│   └── ModelDamaged         a file whose digest is not the published one
├── RequestRefused           an HTTP request that names something wrong; ``param`` says which parameter
├── EngineError              the engine process did not start or died, or a request failed in it
│   ├── EngineLoading        the model is not in memory yet
│   ├── EngineBusy           the queue is full, with ``retry_after_s``
│   └── EngineDraining       shutting down, takes no new requests
├── LLMError                 the model endpoint (``retryable`` says whether asking again can help)
│   ├── LLMUnreachable       no connection, or it broke
│   ├── LLMBusy              429 or 503, with ``retry_after_s``
│   ├── LLMTimeout           no token within the limit
│   └── ContextLengthExceeded  prompt longer than the window, with both numbers
├── PlaybookError            the playbook
│   ├── InvalidDelta         a change that cannot be carried out, with everything that is wrong with it
│   ├── BulletChanged        somebody changed the bullet since; ``details`` holds it as it is now
│   └── PlaybookFull         a change that would exceed the size limit
└── GroundingError           an answer that could not be checked

A message says what was expected, what came and what to do. ``code`` is stable and meant for programs.
"""

from typing import Any, ClassVar


class DeepEduError(Exception):
    """Root of the tree. ``code`` names the kind of error to programs; ``http_status`` is what a server answers."""

    code: ClassVar[str] = "error"
    http_status: ClassVar[int] = 500


class ConfigError(DeepEduError):
    code = "config_error"
    http_status = 400


class UnknownMethod(ConfigError):
    code = "unknown_method"


class BudgetError(ConfigError):
    code = "budget_error"


class BadRequest(DeepEduError):
    code = "bad_request"
    http_status = 400


class AccessDenied(DeepEduError):
    code = "access_denied"
    http_status = 403


class AccessClosed(AccessDenied):
    code = "access_closed"


class WrongKey(AccessDenied):
    code = "wrong_key"
    http_status = 401


class NotSignedIn(AccessDenied):
    code = "not_signed_in"
    http_status = 401


class WrongPassword(AccessDenied):
    code = "wrong_password"
    http_status = 401


class AccountLocked(AccessDenied):
    """``retry_after_s``: seconds until another try is taken."""

    code = "account_locked"
    http_status = 429

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class NotAllowed(AccessDenied):
    code = "not_allowed"


class ForeignOrigin(AccessDenied):
    code = "foreign_origin"


class Unsupported(DeepEduError):
    code = "unsupported"
    http_status = 400


class MissingExtra(DeepEduError):
    """An optional dependency is absent; the message names the extra to install."""

    code = "missing_extra"
    http_status = 501

    def __init__(self, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs the extra {extra!r}, which is not installed: pip install 'deepedu[{extra}]'")
        self.extra = extra


class StoreError(DeepEduError):
    code = "store_error"


class NotFound(StoreError):
    code = "not_found"
    http_status = 404


class KeyDestroyed(StoreError):
    code = "key_destroyed"
    http_status = 410


class StoreBusy(StoreError):
    code = "store_busy"
    http_status = 409


class IngestError(DeepEduError):
    code = "ingest_error"
    http_status = 422


class UnsupportedFormat(IngestError):
    code = "unsupported_format"


class EncryptedDocument(IngestError):
    code = "encrypted_document"


class DamagedDocument(IngestError):
    code = "damaged_document"


class EmptyDocument(IngestError):
    code = "empty_document"


class DocumentTooLarge(IngestError):
    code = "document_too_large"
    http_status = 413


class SearchError(DeepEduError):
    code = "search_error"


class ModelError(DeepEduError):
    code = "model_error"


class ModelNotAvailable(ModelError):
    code = "model_not_available"
    http_status = 503


class ModelDamaged(ModelError):
    code = "model_damaged"


class EngineError(DeepEduError):
    code = "engine_error"
    http_status = 503


class EngineLoading(EngineError):
    code = "loading"


class EngineBusy(EngineError):
    code = "queue_full"
    http_status = 429

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class EngineDraining(EngineError):
    code = "draining"


class RequestRefused(DeepEduError):
    """An HTTP request that cannot be served as it is. ``kind`` and ``status`` override the class's."""

    code = "invalid_request"
    http_status = 400

    def __init__(self, message: str, *, param: str | None = None, kind: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.param = param
        self.kind = kind or self.code
        self.status = status


class LLMError(DeepEduError):
    """The model endpoint failed. ``retryable``: the same request may succeed later and is safe to send again."""

    code = "llm_error"
    http_status = 502

    def __init__(self, message: str, *, retryable: bool = False, status: int | None = None) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.status = status


class LLMUnreachable(LLMError):
    code = "llm_unreachable"
    http_status = 503


class LLMBusy(LLMError):
    code = "llm_busy"
    http_status = 503

    def __init__(self, message: str, *, retry_after_s: float | None = None, status: int | None = None) -> None:
        super().__init__(message, retryable=True, status=status)
        self.retry_after_s = retry_after_s


class LLMTimeout(LLMError):
    code = "llm_timeout"
    http_status = 504


class ContextLengthExceeded(LLMError):
    """``prompt_tokens`` and ``window_tokens`` are None when the endpoint did not tell them."""

    code = "context_length_exceeded"
    http_status = 400

    def __init__(
        self,
        message: str,
        *,
        prompt_tokens: int | None = None,
        window_tokens: int | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(message, retryable=False, status=status)
        self.prompt_tokens = prompt_tokens
        self.window_tokens = window_tokens


class PlaybookError(DeepEduError):
    code = "playbook_error"
    http_status = 400


class InvalidDelta(PlaybookError):
    code = "invalid_delta"


class BulletChanged(PlaybookError):
    """``details`` is plain data for the program that asked; a server sends it along."""

    code = "bullet_changed"
    http_status = 409

    def __init__(self, message: str, *, details: dict[str, Any]) -> None:
        super().__init__(message)
        self.details = details


class PlaybookFull(PlaybookError):
    code = "playbook_full"
    http_status = 409


class GroundingError(DeepEduError):
    code = "grounding_error"
