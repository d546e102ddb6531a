"""Changes of the playbook as plain values: what a model may propose, what a teacher may do, how they are stored."""

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field, TypeAdapter, ValidationError

from deepedu.base.errors import InvalidDelta
from deepedu.playbook.bullet import (
    Author,
    Bullet,
    BulletId,
    BulletScope,
    Evidence,
    Kind,
    Language,
    Section,
    Status,
    Text,
    Value,
)


class Add(Value):
    """A new bullet; what says the same as an existing one adds its evidence and counts to that one instead.

    ``bullet_id`` None takes the next free id. ``section`` None takes the one of its kind.
    """

    op: Literal["ADD"] = "ADD"
    text: Text
    kind: Kind
    section: Section | None = None
    language: Language = "vi"
    scope: BulletScope = BulletScope()
    evidence: tuple[Evidence, ...] = ()
    helpful: int = Field(default=0, ge=0)
    harmful: int = Field(default=0, ge=0)
    bullet_id: BulletId | None = None


class Update(Value):
    """Other values for a bullet; None leaves a value alone, ``evidence`` is added to what is there.

    A bullet whose text, kind or scope changes has to be verified again, whoever changed it.
    """

    op: Literal["UPDATE"] = "UPDATE"
    bullet_id: BulletId
    text: Text | None = None
    kind: Kind | None = None
    section: Section | None = None
    language: Language | None = None
    scope: BulletScope | None = None
    evidence: tuple[Evidence, ...] = ()


class Merge(Value):
    """Several bullets become one, which takes over their counts and evidence; the sources are retired.

    ``text`` None keeps the target's; another text has to be verified again.
    """

    op: Literal["MERGE"] = "MERGE"
    into: BulletId
    sources: tuple[BulletId, ...] = Field(min_length=1)
    text: Text | None = None


class Retire(Value):
    """A bullet that is shown no more; it stays in the book with the reason."""

    op: Literal["RETIRE"] = "RETIRE"
    bullet_id: BulletId
    reason: str = Field(min_length=1)


class Count(Value):
    """Times that a bullet helped or harmed, to be added."""

    op: Literal["COUNT"] = "COUNT"
    bullet_id: BulletId
    helpful: int = Field(default=0, ge=0)
    harmful: int = Field(default=0, ge=0)


class Judge(Value):
    """The verdict on a bullet. Only teachers and the verifier give one; the system may only retire."""

    op: Literal["JUDGE"] = "JUDGE"
    bullet_id: BulletId
    status: Status
    reasons: tuple[str, ...] = ()


class Put(Value):
    """A bullet exactly as given, new or in the place of the one with its id: how a version or an export comes back."""

    op: Literal["PUT"] = "PUT"
    bullet: Bullet


class Remove(Value):
    """A bullet that is not there in the version that comes back. No new bullet gets its number."""

    op: Literal["REMOVE"] = "REMOVE"
    bullet_id: BulletId


Operation = Annotated[Add | Update | Merge | Retire | Count | Judge | Put | Remove, Field(discriminator="op")]
# What a model may propose.
Proposal = Annotated[Add | Update | Merge | Retire | Count, Field(discriminator="op")]

_OPERATIONS: TypeAdapter[tuple[Operation, ...]] = TypeAdapter(tuple[Operation, ...])
_PROPOSALS: TypeAdapter[tuple[Proposal, ...]] = TypeAdapter(tuple[Proposal, ...])


class Delta(Value):
    """Operations that belong together, by whom and why."""

    id: str = Field(min_length=1, max_length=64)
    author: Author
    reason: str
    at: AwareDatetime
    operations: tuple[Operation, ...] = Field(min_length=1)


def proposals(data: Any) -> tuple[Proposal, ...]:
    """Operations that a model proposed, as it wrote them (parsed JSON).

    Raises:
        InvalidDelta: one of them is no operation that a model may propose.
    """
    try:
        return _PROPOSALS.validate_python(data)
    except ValidationError as error:
        raise InvalidDelta(told(error)) from error


def operations_from_json(text: str | bytes) -> tuple[Operation, ...]:
    """The operations of a stored delta.

    Raises:
        InvalidDelta: it is damaged.
    """
    try:
        return _OPERATIONS.validate_json(text)
    except ValidationError as error:
        raise InvalidDelta(told(error)) from error


def operations_to_json(operations: tuple[Operation, ...]) -> str:
    """One spelling for equal operations."""
    return _OPERATIONS.dump_json(operations).decode()


def told(error: ValidationError) -> str:
    """Everything that is wrong with a value, in one line."""
    found = [f"{'.'.join(map(str, each['loc'])) or 'it'}: {each['msg']}" for each in error.errors()]
    return "; ".join(found)
