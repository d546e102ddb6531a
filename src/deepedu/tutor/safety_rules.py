"""The rules by which a pupil's message calls for an adult: words and phrases that a school's counsellor can read.

``safety_words.toml`` beside this file says how they are written. A school adds its own in files of the same form.
"""

import difflib
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from deepedu.base.errors import ConfigError
from deepedu.base.vietnamese import fold, words

DEFAULT_RULES = Path(__file__).with_name("safety_words.toml")
# The group that stands for the pupil; it says more than its words, because "trẻ em" and "em trai" are not the pupil.
PUPIL_GROUP = "em"


class Kind(StrEnum):
    """What a message is about."""

    SELF_HARM = "self_harm"
    ABUSE = "abuse"
    VIOLENCE = "violence"
    BULLYING = "bullying"


class Severity(IntEnum):
    """How fast somebody has to look: ``CHECK_IN`` whenever they read it, ``URGENT`` at once."""

    CHECK_IN = 1
    SERIOUS = 2
    URGENT = 3


_SEVERITIES = {severity.name.lower(): severity for severity in Severity}
_ABOUT = ("pupil", "anyone")
_PART = re.compile(r"\([^()]*\)|\S+")


@dataclass(frozen=True)
class Word:
    """A word of a phrase. ``exact``: it must be typed with its accents."""

    spelling: str
    folded: str
    exact: bool = False


@dataclass(frozen=True)
class Piece:
    """A place in a phrase, filled by one of ``choices``; without any it is a gap of up to three words."""

    choices: tuple[tuple[Word, ...], ...] = ()
    is_optional: bool = False
    is_pupil: bool = False


@dataclass(frozen=True)
class Phrase:
    """``written`` is how the rules file has it."""

    written: str
    pieces: tuple[Piece, ...]

    @property
    def names_pupil(self) -> bool:
        return any(piece.is_pupil and not piece.is_optional for piece in self.pieces)

    @property
    def openings(self) -> set[str]:
        """Folded words that it can begin with."""
        found: set[str] = set()
        for piece in self.pieces:
            found |= {choice[0].folded for choice in piece.choices}
            if not piece.is_optional:
                break
        return found


@dataclass(frozen=True)
class PhraseList:
    """Phrases with a table of where to begin looking: a message is short, the rules are long."""

    phrases: tuple[Phrase, ...] = ()

    @cached_property
    def by_opening(self) -> Mapping[str, Sequence[Phrase]]:
        """For a folded word, the phrases that can begin with it."""
        index: dict[str, list[Phrase]] = defaultdict(list)
        for phrase in self.phrases:
            for word in phrase.openings:
                index[word].append(phrase)
        return dict(index)


@dataclass(frozen=True)
class ConcernRule:
    """One ``[[concern]]`` of the rules. ``needs_pupil``: what a lesson says of others does not count."""

    name: str
    kind: Kind
    severity: Severity
    needs_pupil: bool
    phrases: PhraseList
    english: PhraseList
    unless: PhraseList


@dataclass(frozen=True)
class SafetyRules:
    """Everything ``assess`` goes by. ``spelling`` maps a chat spelling to the words it stands for; ``pupil`` are the
    single words by which pupils mean themselves."""

    concerns: tuple[ConcernRule, ...]
    spelling: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    pupil: tuple[Word, ...] = ()
    asking: PhraseList = field(default_factory=PhraseList)
    questions: PhraseList = field(default_factory=PhraseList)
    subjects: PhraseList = field(default_factory=PhraseList)


def load_rules(*school_files: Path) -> SafetyRules:
    """The product's rules with those of a school added: nothing of the product's is taken away by them.

    Raises:
        ConfigError: a file cannot be read or holds what is no rule; the message, in Vietnamese, says where.
    """
    tables = [(path, _table(path)) for path in (DEFAULT_RULES, *school_files)]
    groups: dict[str, tuple[str, ...]] = {}
    spelling: dict[str, tuple[str, ...]] = {}
    for path, table in tables:
        _check_keys(table, ("groups", "spelling", "lesson", "concern"), str(path))
        for name, listed in _section(table, "groups", path).items():
            groups[name] = groups.get(name, ()) + tuple(_texts(listed, f"{path}: [groups] {name}"))
        for typed, meant in _section(table, "spelling", path).items():
            if not isinstance(meant, str) or not meant.strip():
                raise ConfigError(f"{path}: [spelling] {typed!r}: cần chữ đầy đủ trong dấu nháy, nhận được {meant!r}")
            spelling[typed.lower()] = tuple(words_of(meant))
    lesson: dict[str, tuple[Phrase, ...]] = {"asking": (), "questions": (), "subjects": ()}
    concerns: dict[str, ConcernRule] = {}
    for path, table in tables:
        section = _section(table, "lesson", path)
        _check_keys(section, tuple(lesson), f"{path}: [lesson]")
        for name, listed in section.items():
            lesson[name] += _phrases(listed, groups, f"{path}: [lesson] {name}")
        entries = table.get("concern", [])
        if not isinstance(entries, list):
            raise ConfigError(f"{path}: mỗi mối lo phải mở đầu bằng [[concern]] (hai dấu ngoặc vuông)")
        for entry in entries:
            _add_concern(concerns, entry, groups, str(path))
    selves = [_words(text, "[groups]") for text in groups.get(PUPIL_GROUP, ())]
    pupil = tuple(choice[0] for choice in selves if len(choice) == 1)
    lists = {name: PhraseList(phrases) for name, phrases in lesson.items()}
    return SafetyRules(tuple(concerns.values()), spelling, pupil, **lists)


def words_of(text: str) -> list[str]:
    """Words as rules and messages are compared: lower case, one place of tone marks, apostrophes kept inside."""
    return [word for part in text.replace("’", "'").lower().split() for word in _with_apostrophes(part)]


def _with_apostrophes(part: str) -> list[str]:
    return [part.strip("'")] if "'" in part.strip("'") else words(part)


def _table(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"không có tệp từ ngữ an toàn {str(path)!r}; kiểm tra lại đường dẫn") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"không đọc được tệp từ ngữ an toàn {str(path)!r} (cần tệp văn bản UTF-8): {error}"
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: sai cách viết TOML, thường do thiếu dấu nháy hoặc dấu phẩy: {error}") from error


def _section(table: Mapping[str, Any], name: str, path: Path) -> Mapping[str, Any]:
    section = table.get(name, {})
    if not isinstance(section, Mapping):
        raise ConfigError(f"{path}: [{name}] phải là một phần gồm các dòng `tên = giá trị`, nhận được {section!r}")
    return section


def _check_keys(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            hint = f"; có phải ý là {close[0]!r}?" if close else ""
            raise ConfigError(f"{where}: không biết mục {key!r}{hint} Các mục: {', '.join(known)}")


def _add_concern(concerns: dict[str, ConcernRule], entry: Any, groups: Mapping[str, Iterable[str]], path: str) -> None:
    if not isinstance(entry, Mapping) or not isinstance(name := entry.get("name"), str) or not name:
        raise ConfigError(f"{path}: một [[concern]] thiếu `name`, nhận được {entry!r}")
    where = f"{path}: mối lo {name!r}"
    _check_keys(entry, ("name", "kind", "severity", "about", "phrases", "english", "unless"), where)
    lists = {key: _phrases(entry.get(key, []), groups, f"{where}, {key}") for key in ("phrases", "english", "unless")}
    known = concerns.get(name)
    if known is None:
        kind = _choice(entry, "kind", [kind.value for kind in Kind], where)
        severity = _SEVERITIES[_choice(entry, "severity", list(_SEVERITIES), where)]
        about = _choice(entry, "about", list(_ABOUT), where)
        if not lists["phrases"] and not lists["english"]:
            raise ConfigError(f"{where}: chưa có câu mẫu nào; thêm `phrases` hoặc `english`")
        found = {key: PhraseList(phrases) for key, phrases in lists.items()}
        concerns[name] = ConcernRule(name, Kind(kind), severity, about == "pupil", **found)
        return
    changed = [key for key in ("kind", "severity", "about") if key in entry]
    if changed:
        raise ConfigError(
            f"{where} đã có sẵn: tệp thêm chỉ được thêm câu mẫu, không đổi {', '.join(changed)}; hãy bỏ các mục đó "
            "hoặc đặt một tên khác"
        )
    added = {key: PhraseList(getattr(known, key).phrases + phrases) for key, phrases in lists.items()}
    concerns[name] = replace(known, **added)


def _choice(entry: Mapping[str, Any], key: str, known: list[str], where: str) -> str:
    value = entry.get(key)
    if value not in known:
        raise ConfigError(f"{where}: `{key}` phải là một trong {', '.join(known)}; nhận được {value!r}")
    return value


def _texts(listed: Any, where: str) -> list[str]:
    if not isinstance(listed, list) or not all(isinstance(text, str) and text.strip() for text in listed):
        raise ConfigError(f"{where}: cần một danh sách các dòng chữ trong dấu nháy, nhận được {listed!r}")
    return listed


def _phrases(listed: Any, groups: Mapping[str, Iterable[str]], where: str) -> tuple[Phrase, ...]:
    return tuple(_phrase(text, groups, where) for text in _texts(listed, where))


def _phrase(written: str, groups: Mapping[str, Iterable[str]], where: str) -> Phrase:
    pieces = [_piece(part, groups, f"{where}, câu mẫu {written!r}") for part in _PART.findall(written)]
    firm = [piece for piece in pieces if piece.choices and not piece.is_optional and not piece.is_pupil]
    if not pieces or not pieces[0].choices or not pieces[-1].choices or not firm:
        raise ConfigError(
            f"{where}: câu mẫu {written!r} phải bắt đầu và kết thúc bằng một từ, và có ít nhất một từ bắt buộc"
        )
    return Phrase(written, tuple(pieces))


def _piece(part: str, groups: Mapping[str, Iterable[str]], where: str) -> Piece:
    if part in ("...", "…"):
        return Piece()
    is_optional = part.startswith("(") and part.endswith(")")
    inner = part[1:-1] if is_optional else part
    if inner.startswith("<") and inner.endswith(">"):
        name = inner[1:-1]
        if name not in groups:
            close = difflib.get_close_matches(name, list(groups), n=1)
            hint = f"; có phải ý là <{close[0]}>?" if close else ""
            raise ConfigError(f"{where}: không có nhóm từ {name!r} trong [groups]{hint}")
        choices = [_words(text, where) for text in groups[name]]
        # The longest first: "bố mẹ" before "bố".
        return Piece(tuple(sorted(choices, key=len, reverse=True)), is_optional, name == PUPIL_GROUP)
    return Piece(tuple(_words(text, where) for text in inner.split("/")), is_optional)


def _words(text: str, where: str) -> tuple[Word, ...]:
    found: list[Word] = []
    for part in text.split():
        spelled = words_of(part.removeprefix("!").removeprefix("<").removesuffix(">"))
        if len(spelled) != 1 or any(sign in part for sign in "<>()"):
            raise ConfigError(f"{where}: không đọc được {part!r}; chỉ dùng từ, a/b, (a), <nhóm>, !từ và ...")
        found.append(Word(spelled[0], fold(spelled[0]), part.startswith("!")))
    if not found:
        raise ConfigError(f"{where}: có một chỗ trống quanh dấu '/'")
    return tuple(found)
