"""One rule of the playbook, and what belongs to it: where it holds, what it stands on, and how it has served."""

import re
import unicodedata
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field

from deepedu.base.vietnamese import estimate_tokens

Kind = Literal["fact", "method", "mistake", "explanation", "tool"]
Status = Literal["proposed", "verified", "quarantined", "retired"]
Language = Literal["vi", "en"]

# Where a bullet goes whose author names no section.
SECTIONS: dict[Kind, str] = {
    "fact": "Kiến thức trong sách",
    "method": "Phương pháp và công thức",
    "mistake": "Lỗi thường gặp",
    "explanation": "Cách giảng hiệu quả",
    "tool": "Dùng công cụ",
}
# Upper bound of one bullet, in estimated tokens: it is a rule, not a page.
BULLET_TOKENS = 200

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
# Marks without width or for the direction of writing: copied along by accident, or to hide something.
_INVISIBLE = re.compile(r"[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
# Any letters, digits and joining signs, in any case: ids of other playbooks are kept as they are.
_ID = re.compile(r"[^\W_]+(?:[-_.:][^\W_]+)*")


def clean_text(text: str) -> str:
    """A bullet's text in its one spelling: NFC, line feeds, nothing invisible, no white space at the end of a line.

    Raises:
        ValueError: nothing is left, control characters, or longer than a bullet may be.
    """
    text = clean_quote(text)
    if (tokens := estimate_tokens(text)) > BULLET_TOKENS:
        raise ValueError(f"expected at most {BULLET_TOKENS} tokens, came about {tokens}: split it, or say it shorter")
    return text


def clean_quote(text: str) -> str:
    """A quote in the same spelling, as long as the book has it.

    Raises:
        ValueError: nothing is left, or control characters.
    """
    text = unicodedata.normalize("NFC", _INVISIBLE.sub("", text)).replace("\t", " ")
    text = "\n".join(line.rstrip() for line in re.split(r"\r\n?|\n", text)).strip()
    if not text:
        raise ValueError("expected the text of a rule, came nothing")
    if found := _CONTROL.search(text):
        raise ValueError(f"expected plain text, came the control character {found.group()!r}")
    return text


def clean_section(section: str) -> str:
    """A heading in its one spelling: NFC, one line. Empty: the bullet stands before any heading.

    Raises:
        ValueError: control characters.
    """
    section = " ".join(unicodedata.normalize("NFC", _INVISIBLE.sub("", section)).split())
    if found := _CONTROL.search(section):
        raise ValueError(f"expected a heading, came the control character {found.group()!r}")
    return section.lstrip("#").strip()


def _checked_id(bullet_id: str) -> str:
    if len(bullet_id) > 64 or not _ID.fullmatch(bullet_id):
        raise ValueError(f"expected an id of letters, digits and - _ . : in between, came {bullet_id!r}")
    return bullet_id


BulletId = Annotated[str, AfterValidator(_checked_id)]
Text = Annotated[str, AfterValidator(clean_text)]
Quote = Annotated[str, AfterValidator(clean_quote)]
Section = Annotated[str, AfterValidator(clean_section)]


class Value(BaseModel):
    """Plain data that never changes; an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class BulletScope(Value):
    """Where a bullet holds; None means everywhere. ``book``: the SHA-256 of the document, the same on every machine."""

    grade: int | None = Field(default=None, ge=1, le=12)
    subject: str | None = None
    book: str | None = None
    lesson: str | None = None


class PassageEvidence(Value):
    """A quote that bears the bullet: its book (SHA-256), the page it begins on, and its words."""

    type: Literal["passage"] = "passage"
    book: str
    page: int
    quote: Quote


class InteractionEvidence(Value):
    """The interaction that a bullet came from: a reference that tells nothing about who asked."""

    type: Literal["interaction"] = "interaction"
    reference: str
    signal: str


Evidence = Annotated[PassageEvidence | InteractionEvidence, Field(discriminator="type")]


class Author(Value):
    """Who changed the book. ``model`` proposes, ``verifier`` judges by its checks, ``teacher`` by knowledge; ``system``
    keeps counts and retires what harms."""

    role: Literal["model", "verifier", "teacher", "system"]
    name: str = ""


class Bullet(Value):
    """A rule. ``order`` is its place among all bullets ever added; ``reasons`` tell why it has its status.

    ``merged_into``: the bullet that took over its counts and evidence; what is counted for it later goes there too.
    """

    id: BulletId
    order: int = Field(ge=0)
    section: Section
    text: Text
    kind: Kind
    language: Language = "vi"
    scope: BulletScope = BulletScope()
    evidence: tuple[Evidence, ...] = ()
    helpful: int = Field(default=0, ge=0)
    harmful: int = Field(default=0, ge=0)
    status: Status = "proposed"
    reasons: tuple[str, ...] = ()
    merged_into: BulletId | None = None
    author: Author
    created_at: AwareDatetime
    changed_at: AwareDatetime

    @property
    def tokens(self) -> int:
        """Estimated tokens of its text."""
        return estimate_tokens(self.text)

    @property
    def sameness(self) -> tuple[Any, ...]:
        """Equal for bullets that say the same in the same place, whatever their case and spacing."""
        return (self.kind, self.language, self.scope, " ".join(self.text.casefold().split()))


def changed(bullet: Bullet, at: datetime, **values: Any) -> Bullet:
    """A bullet with other values, checked like a new one.

    Raises:
        ValueError: a value that no bullet can have.
    """
    return Bullet.model_validate({**dict(bullet), **values, "changed_at": at})
