"""What a model wrote, before it is checked: sentences without markers, lead-ins, greetings and mark-up."""

import re
import unicodedata
from dataclasses import dataclass

from deepedu.base.vietnamese import sentence_spans
from deepedu.tutor.terms import is_task

_MARKER = re.compile(
    r"[\[【]\s*(?:đoạn|nguồn|tài liệu|passage|source|\^)?\s*(\d{1,9}(?:\s*[,;–-]\s*\d{1,9})*|n)\s*[\]】]", re.IGNORECASE
)
# Rules of the playbook that a model names as it names passages.
BULLET_MARKER = re.compile(r"[\[(]\s*(b-\d{1,9})(?:\s*[,;]\s*b-\d{1,9})*\s*[\])]")
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_ORNAMENT = re.compile(r"\*\*|__|`|^\s*(?:#{1,6}|>|[-*•+]|\d{1,2}[.)])\s+|^\s*(?:[-*•]|\d{1,2}[.)])\s*$")
_LEAD_INS = (
    re.compile(
        r"(?:theo|dựa (?:vào|trên|theo)|căn cứ (?:vào|theo)|như|trong|từ)\s+(?:những |các |như )?"
        r"(?:thông tin|nội dung|đoạn|sách|bài (?:học|đọc)|tài liệu|văn bản|nguồn|phần|ngữ cảnh|câu hỏi|dữ liệu)"
        r"[^,:.;]{0,60}[,:]\s*",
        re.IGNORECASE,
    ),
    re.compile(
        r"(?:câu trả lời|trả lời|đáp án|kết luận|tóm lại|nói tóm lại|như vậy|answer)"
        r"(?: (?:đúng|ngắn gọn|cho câu hỏi này))?"
        r"(?:\s+là)?\s*[:,]\s*",
        re.IGNORECASE,
    ),
    re.compile(
        r"(?:dạ|vâng|xin chào|chào (?:bạn|em)|chắc chắn rồi|được rồi)(?: (?:bạn|em|ạ))?\s*[,.!:]\s*", re.IGNORECASE
    ),
)
_FILLER = re.compile(
    r"(?:xin chào|chào|chúc|hy vọng|hi vọng|mong rằng|cảm ơn|cám ơn|rất vui|nếu (?:bạn|em) (?:cần|có|muốn|còn)|"
    r"hãy (?:hỏi|cho tôi)|đừng ngần ngại|tôi (?:là|có thể|sẽ|xin|rất|hiểu|đã)|dưới đây là|"
    r"sau đây là|đây là câu trả lời|"
    r"câu hỏi (?:của bạn|này|rất)|xin lỗi|dạ|vâng)\b",
    re.IGNORECASE,
)
_DISCLAIMER = re.compile(
    r"không (?:có|tìm thấy|thấy|đủ|cung cấp)(?: bất k[ìỳ]| đủ| được)?(?: một| các)? "
    r"(?:thông tin|dữ liệu|câu trả lời|nội dung)|"
    r"(?:không|chưa) (?:được |có )?(?:đề cập|nhắc|nêu|nói (?:đến|tới|rõ|về)|cung cấp|ghi rõ|cho biết)|"
    r"không thể (?:trả lời|xác định)|(?:tôi|em|mình) không (?:rõ|biết|chắc)|sách chưa nói",
    re.IGNORECASE,
)
_FOREIGN = re.compile(r"[\u0400-\u04ff\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0600-\u06ff]")
_CODE = re.compile(r"\b(?:def|return|import|function|var|const|print)\b\s*[\w(]+.*[(){}=;]|[{};]\s*$|</?\w+>|==|=>")


@dataclass(frozen=True)
class Cleaned:
    """A sentence ready to be checked. ``markers`` are the passages it cites, as written, in order."""

    text: str
    markers: tuple[int, ...]

    @property
    def is_empty(self) -> bool:
        return not any(c.isalnum() for c in self.text)

    @property
    def is_question(self) -> bool:
        """Whether it asks or sets a task: small models copy exercises."""
        return self.text.rstrip(" \"”'»)*").endswith("?") or is_task(self.text)

    @property
    def is_filler(self) -> bool:
        """Whether it opens like a greeting or a remark about the conversation."""
        return _FILLER.match(self.text) is not None

    @property
    def is_disclaimer(self) -> bool:
        """Whether it says that the passages do not tell."""
        return _DISCLAIMER.search(self.text) is not None

    @property
    def is_foreign(self) -> bool:
        """Whether it holds letters of a script that Vietnamese is not written in."""
        return len(_FOREIGN.findall(self.text)) >= 2

    @property
    def is_code(self) -> bool:
        return _CODE.search(self.text) is not None


def clean(sentence: str) -> Cleaned:
    """Takes markers, mark-up and lead-ins ("Theo thông tin trong đoạn [1], ...") off a sentence of a draft."""
    text = unicodedata.normalize("NFC", sentence)
    markers = [int(n) for match in _MARKER.finditer(text) for n in re.findall(r"\d+", match[1])]
    text = BULLET_MARKER.sub("", _MARKER.sub("", text))
    text = _ORNAMENT.sub("", text.replace("\u200b", ""))
    text = re.sub(r"\s+([,.;:!?])", r"\1", re.sub(r"\s+", " ", text)).strip()
    return Cleaned(_without_lead_ins(text), tuple(dict.fromkeys(markers)))


def sentences(draft: str) -> list[str]:
    """The sentences of a draft; code blocks are left out."""
    text = _FENCE.sub("\n\n", unicodedata.normalize("NFC", draft))
    found: list[str] = []
    for start, end in sentence_spans(text):
        # "Công thức là:" says nothing without the line below it.
        if found and found[-1].endswith(":") and "\n" not in found[-1]:
            found[-1] = f"{found[-1]}\n{text[start:end]}"
        else:
            found.append(text[start:end])
    return found


def _without_lead_ins(text: str) -> str:
    for pattern in _LEAD_INS:
        match = pattern.match(text)
        # A lead-in with a name in it says who says so, and has to be checked like the rest.
        if match is None or any(c.isupper() for c in match.group()[1:]) or re.search(r"\d{2}", match.group()):
            continue
        rest = text[match.end() :].strip()
        if rest:
            text = rest[0].upper() + rest[1:]
    return text
