"""A quiz item as the fields of a form, and back; what is wrong is told by field."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from deepedu.base.errors import BadRequest
from deepedu.server.pages import is_number
from deepedu.tutor.quiz import Choice, Item, Short, TrueFalse, read_item
from deepedu.tutor.quiz_shelf import QuizHead

KINDS = ("choice", "true_false", "short")
FIELDS = (
    *("kind", "stem", "key", "answer", "unit", "decimals", "skill", "explanation"),
    *(f"{name}{place}" for name in ("option", "statement", "truth") for place in range(4)),
)
LONGEST = 4000


class BadForm(BadRequest):
    """What was filled in makes no item; ``problems`` tells by field, in Vietnamese."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        super().__init__("; ".join(problems.values()))
        self.problems = dict(problems)


def form_of(item: Item) -> dict[str, str]:
    """The fields that make an item."""
    form = {"kind": item.kind, "stem": item.stem, "skill": item.skill, "explanation": item.explanation}
    match item:
        case Choice():
            form |= {f"option{place}": option for place, option in enumerate(item.options)} | {"key": str(item.key)}
        case TrueFalse():
            for place, claim in enumerate(item.statements):
                form |= {f"statement{place}": claim.text, f"truth{place}": "true" if claim.truth else "false"}
        case Short():
            form |= {"answer": item.key, "unit": item.unit or ""}
            form["decimals"] = "" if item.decimals is None else str(item.decimals)
    return form


def item_of(form: Mapping[str, str], before: Item | None = None) -> Item:
    """The item that a form makes; its ``kind`` is one of ``KINDS``.

    Args:
        before: the item that it was; its places in the book stay.

    Raises:
        BadForm: it makes none.
    """
    kind = form["kind"]
    data: dict[str, Any] = {name: form.get(name, "") for name in ("stem", "skill", "explanation")}
    data |= {"kind": kind, "evidence": before.evidence.model_dump() if before and before.evidence else None}
    problems: dict[str, str] = {}
    match kind:
        case "choice":
            if form.get("key") not in ("0", "1", "2", "3"):
                problems["key"] = "chưa chọn phương án đúng; hãy đánh dấu một phương án"
            data |= {"options": [form.get(f"option{place}", "") for place in range(4)]}
            data["key"] = int(form["key"]) if not problems else 0
        case "true_false":
            data["statements"] = [_claim(form, place, before, problems) for place in range(4)]
        case "short":
            data |= {"key": form.get("answer", ""), "unit": form.get("unit", "").strip() or None}
            data["decimals"] = _decimals(form.get("decimals", "").strip(), problems)
    try:
        item = read_item(data)
    except BadRequest as error:
        cause = error.__cause__
        assert isinstance(cause, ValidationError), "what makes no item was found by its own rules"
        raise BadForm(_by_field(cause) | problems) from error
    if problems:
        raise BadForm(problems)
    return item


def head_of(form: Mapping[str, str], seed: int = 0) -> QuizHead:
    """Title, subject and grade of a quiz from a form.

    Raises:
        BadForm: no title, or a grade that is none.
    """
    grade = form.get("grade", "").strip()
    if not form.get("title", "").strip():
        raise BadForm({"title": "Chưa có tên đề: hãy đặt tên, ví dụ “Kiểm tra 15 phút, Bài 2”."})
    if grade and not (is_number(grade) and 1 <= int(grade) <= 12):
        raise BadForm({"grade": f"Lớp cần là số từ 1 đến 12, nhận được {grade[:20]!r}: hãy sửa lại hoặc bỏ trống."})
    try:
        return QuizHead(
            title=form["title"],
            subject=form.get("subject", "").strip() or None,
            grade=int(grade) if grade else None,
            seed=seed,
        )
    except ValidationError as error:
        raise BadForm({str(each["loc"][0]): _told(each) for each in error.errors()}) from error


def _claim(form: Mapping[str, str], place: int, before: Item | None, problems: dict[str, str]) -> dict[str, Any]:
    truth = form.get(f"truth{place}")
    if truth not in ("true", "false"):
        problems[f"truth{place}"] = "chưa chọn đúng hay sai; hãy chọn một"
    evidence = before.statements[place].evidence if isinstance(before, TrueFalse) else None
    return {
        "text": form.get(f"statement{place}", ""),
        "truth": truth == "true",
        "evidence": evidence.model_dump() if evidence else None,
    }


def _decimals(text: str, problems: dict[str, str]) -> int | None:
    if not text:
        return None
    if not is_number(text) or int(text) > 10:
        problems["decimals"] = f"cần số từ 0 đến 10, nhận được {text[:20]!r}; bỏ trống nếu không làm tròn"
        return None
    return int(text)


def _by_field(error: ValidationError) -> dict[str, str]:
    return {_field(each["loc"][1:]): _told(each) for each in error.errors()}


def _field(path: tuple[int | str, ...]) -> str:
    match path:
        case ("options", int(place)):
            return f"option{place}"
        case ("statements", int(place), *_):
            return f"statement{place}"
        case ("options" | "statements",):
            return "parts"
        case ("key",) | ():
            # Of a choice the key is right or missing; what is left is a short answer's.
            return "answer"
        case _:
            return str(path[0])


def _told(error: Any) -> str:
    return str(error["ctx"]["error"]) if error["type"] == "value_error" else "giá trị không hợp lệ; hãy sửa lại"
