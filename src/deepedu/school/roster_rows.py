"""From the cells of a roster to people: every field read, and what is wrong with a line told."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import date

from deepedu.base.errors import BadRequest
from deepedu.school.roster import FIELD_NAMES, Found, RosterRole, RosterRow, RowProblem, Teaching
from deepedu.school.roster_columns import CONTACTS, COUNTERS, Table, plain_class_name, plain_key

_ROLE_WORDS: tuple[tuple[RosterRole, str], ...] = (
    ("student", "hoc sinh,hs,hoc vien,student,pupil"),
    ("teacher", "giao vien,gv,giao vien chu nhiem,gvcn,thay,co,thay co,teacher"),
    ("guardian", "phu huynh,ph,cha,bo,ba,me,cha me,nguoi giam ho,giam ho,guardian,parent"),
)
_ROLES: dict[str, RosterRole] = {word: role for role, listed in _ROLE_WORDS for word in listed.split(",")}
_FOOTER = re.compile(
    r"(tong (so|cong)|nguoi lap|(pho )?hieu truong|giao vien chu nhiem|thu truong|ky ten|xac nhan|ghi chu)\b.*"
    r"|.*\bngay\b.*\bthang\b.*\bnam\b.*"
)
_DATES = (re.compile(r"(\d{1,2})[/.\- ](\d{1,2})[/.\- ](\d{4})"), re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})"))
_SCIENTIFIC = re.compile(r"\d+([.,]\d+)?E\+?\d+", re.IGNORECASE)
_EMAIL = re.compile(r"[^\s@,;<>\"]+@[^\s@,;<>\"]+\.[^\s@,;<>\".]{2,}")
_USERNAME = re.compile(r"[a-z0-9][a-z0-9._@-]{1,62}[a-z0-9]")
_PHONE_IN_TEXT = re.compile(r"(?:\+?84|0)[\d .\-]{8,13}\d")
_MOST_NAME_LETTERS = 100


class Reading:
    """What was read so far, of all sheets of a file."""

    def __init__(self, filename: str, today: date) -> None:
        self.filename = filename
        self.today = today
        self.found: list[Found] = []
        self.problems: list[RowProblem] = []
        self.ignored: list[str] = []

    def read(self, table: Table) -> None:
        """Adds a sheet's people and problems."""
        title = table.sheet.title
        place = f"trang tính “{title}”, " if title else ""
        used = set(table.columns.values())
        names = [
            cell for index, cell in enumerate(table.header) if index not in used and plain_key(cell) not in COUNTERS
        ]
        self.ignored += [f"{place}cột “{name}”" for name in names]
        if table.role == "student" and not table.class_name and not table.columns.keys() & {"class_name", "role"}:
            raise BadRequest(
                f"{self.filename}: {place}không có cột “Lớp”, tên trang tính và tiêu đề cũng không nói là lớp nào; "
                "hãy thêm cột “Lớp”, hoặc đặt tên trang tính là tên lớp (ví dụ 6A)."
            )
        if "code" not in table.columns and any(f"{who}_name" in table.columns for who in CONTACTS):
            expected, remedy = "cột mã học sinh để nối phụ huynh với con", "hãy thêm cột đó; phụ huynh chưa được nạp"
            self.problems.append(
                RowProblem(table.header_line, FIELD_NAMES["code"], "", expected, remedy, title, is_warning=True)
            )
        is_below = False
        for line, cells in table.lines:
            values = {name: cells[i] for name, i in table.columns.items() if i < len(cells) and cells[i]}
            if not values or all(value == table.header_of(name) for name, value in values.items()):
                continue  # Blank but for its number, or the header once more on a new page.
            # Below "Hiệu trưởng" stands his name, which is no pupil's.
            if _is_footer(values) or (is_below and len(values) == 1):
                is_below = True
                self.ignored.append(f"{place}dòng {line}: “{' '.join(values.values())[:80]}”")
                continue
            row = _Row(self, table, line, values).read()
            if row:
                self.found.append(row)


class _Row:
    """One line, field by field; what is wrong with it goes to the reading."""

    def __init__(self, reading: Reading, table: Table, line: int, values: dict[str, str]) -> None:
        self._reading = reading
        self._table = table
        self._line = line
        self._values = values
        self._is_whole = True

    def read(self) -> Found | None:
        """The person and the guardians of this line; None when something is wrong that must be put right first."""
        role = self._role()
        is_known_role = self._is_whole
        full_name, code, class_text = self._full_name(), self._code("code"), self._class_text()
        row = RosterRow(
            self._line,
            role,
            full_name,
            code="" if role == "guardian" else code,
            class_name=plain_class_name(class_text) if role == "student" else "",
            birth_date=self._birth_date(),
            email=self._email("email"),
            username=self._username(),
            phone="" if role == "student" and self._is_guardian_phone() else self._phone("phone"),
            sheet=self._table.sheet.title,
        )
        if role == "student" and is_known_role and not class_text:
            self._tell("class_name", "tên lớp, ví dụ 6A", "hãy điền lớp của học sinh")
        if role == "teacher":
            row = replace(row, teaches=_teachings(class_text, self._values.get("subject", "")))
        if role == "guardian":
            children = [part for part in re.split(r"[,;\s]+", self._values.get("guardian_of", "")) if part] or [code]
            row = replace(row, guardian_of=tuple(child for child in children if child))
            if not row.guardian_of:
                self._tell("code", "mã học sinh của con", "hãy điền mã học sinh của con để nối phụ huynh với con")
        contacts = self._contacts(row) if role == "student" and self._is_whole else ()
        return Found(row, contacts) if self._is_whole else None

    def _tell(self, name: str, expected: str, remedy: str, *, is_warning: bool = False) -> None:
        column = self._table.header_of(name) or FIELD_NAMES.get(name, name)
        came, title = self._values.get(name, "")[:80], self._table.sheet.title
        self._reading.problems.append(RowProblem(self._line, column, came, expected, remedy, title, is_warning))
        self._is_whole = self._is_whole and is_warning

    def _role(self) -> RosterRole:
        text = self._values.get("role")
        if text is None:
            return self._table.role
        role = _ROLES.get(plain_key(text))
        if role is None:
            self._tell("role", "học sinh, giáo viên hoặc phụ huynh", "hãy sửa vai trò, hoặc để trống nếu là học sinh")
        return role or "student"

    def _full_name(self) -> str:
        parts = [self._values.get(name, "") for name in ("full_name", "family_name", "middle_name", "given_name")]
        name = " ".join(part for part in parts if part)
        wanted = "full_name" if "full_name" in self._table.columns else "given_name"
        self._values.setdefault(wanted, name)
        if not name:
            self._tell(wanted, "họ và tên", "hãy điền họ tên, hoặc xóa dòng này")
        elif len(name) > _MOST_NAME_LETTERS:
            self._tell(wanted, f"không quá {_MOST_NAME_LETTERS} chữ", "có thể thiếu dấu ngoặc kép đóng; hãy sửa ô này")
        elif not any(c.isalpha() for c in name) or not all(c.isalpha() or c in " .'’-‘()" for c in name):
            self._tell(wanted, "họ tên chỉ gồm chữ cái", "hãy sửa lại họ tên")
        return name.title() if name.isupper() and " " in name else name

    def _code(self, name: str) -> str:
        code = self._values.get(name, "").replace(" ", "")
        if _SCIENTIFIC.fullmatch(code):
            self._tell(name, "mã đầy đủ", "Excel đã đổi mã thành số; hãy định dạng cột là Văn bản (Text) rồi gõ lại mã")
        elif len(code) > 64:
            self._tell(name, "mã không quá 64 ký tự", "hãy sửa lại mã")
        return code

    def _class_text(self) -> str:
        text = self._values.get("class_name", self._table.class_name)
        if _SCIENTIFIC.fullmatch(text) or _DATES[1].fullmatch(text):
            self._tell(
                "class_name", "tên lớp", "Excel đã đổi tên lớp thành ngày hoặc số; hãy định dạng cột là Văn bản (Text)"
            )
        elif len(text) > 64:
            self._tell("class_name", "tên lớp không quá 64 ký tự", "hãy sửa lại tên lớp")
        return text

    def _birth_date(self) -> date | None:
        text = self._values.get("birth_date")
        if text is None:
            return None
        day_first, year_first = (pattern.fullmatch(text) for pattern in _DATES)
        try:
            if day_first:
                birth = date(int(day_first[3]), int(day_first[2]), int(day_first[1]))
            elif year_first:
                birth = date(int(year_first[1]), int(year_first[2]), int(year_first[3]))
            else:
                birth = None
        except ValueError:
            birth = None
        if birth is None or birth.year < 1920 or birth > self._reading.today:
            self._tell("birth_date", "ngày sinh có thật dạng ngày/tháng/năm, ví dụ 05/09/2014", "hãy sửa lại ngày sinh")
            return None
        return birth

    def _email(self, name: str) -> str:
        text = self._values.get(name, "").lower()
        if text and not _EMAIL.fullmatch(text):
            self._tell(name, "một địa chỉ e-mail", "hãy sửa lại, hoặc để trống", is_warning=name != "email")
            return ""
        return text

    def _username(self) -> str:
        text = self._values.get("username", "").lower()
        if text and not _USERNAME.fullmatch(text):
            told = "3 đến 64 chữ cái không dấu, chữ số hoặc . _ - @"
            self._tell("username", told, "hãy sửa lại, hoặc để trống để DeepEdu tự đặt")
        return text

    def _phone(self, name: str) -> str:
        text = self._values.get(name, "")
        digits = re.sub(r"\D", "", text)
        if digits.startswith("84") and len(digits) in (11, 12):
            digits = "0" + digits[2:]
        # Excel takes the leading zero for nothing.
        digits = f"0{digits}" if len(digits) == 9 and digits[0] in "35789" else digits
        if text and (not re.fullmatch(r"0\d{9,10}", digits) or re.search(r"[^\W\d_]", text)):
            self._tell(name, "một số điện thoại, ví dụ 0912345678", "hãy sửa lại, hoặc để trống", is_warning=True)
            return ""
        return digits

    def _is_guardian_phone(self) -> bool:
        """A phone without owner beside a guardian's name without phone: the one that the school calls."""
        names = [who for who in CONTACTS if f"{who}_name" in self._table.columns]
        return bool(names) and not any(f"{who}_phone" in self._table.columns for who in names)

    def _contacts(self, child: RosterRow) -> tuple[RosterRow, ...]:
        if not child.code:
            if "code" in self._table.columns and any(f"{who}_name" in self._values for who in CONTACTS):
                self._tell("code", "mã học sinh để nối phụ huynh với con", "hãy điền mã học sinh", is_warning=True)
            return ()
        found: list[RosterRow] = []
        for who in CONTACTS:
            name = self._values.get(f"{who}_name", "")
            if inside := _PHONE_IN_TEXT.search(name):
                self._values.setdefault(f"{who}_phone", inside[0])
                name = (name[: inside.start()] + name[inside.end() :]).strip(" -–,;:()")
            phone = self._phone(f"{who}_phone")
            if not phone and self._is_guardian_phone() and not found:
                phone = self._phone("phone")
            if not name and not phone:
                continue
            if not all(c.isalpha() or c in " .'’-‘()" for c in name) or len(name) > _MOST_NAME_LETTERS:
                self._tell(
                    f"{who}_name", "họ tên một người", "hãy sửa lại; phụ huynh này chưa được nạp", is_warning=True
                )
                continue
            found.append(
                RosterRow(
                    self._line,
                    "guardian",
                    (name.title() if name.isupper() and " " in name else name) or f"Phụ huynh em {child.full_name}",
                    email=self._email(f"{who}_email"),
                    phone=phone,
                    guardian_of=(child.code,),
                    sheet=child.sheet,
                )
            )
        return tuple(found)


def _is_footer(values: Mapping[str, str]) -> bool:
    return all(_FOOTER.fullmatch(plain_key(value)) for value in values.values())


def _teachings(class_text: str, subject_text: str) -> tuple[Teaching, ...]:
    classes = [plain_class_name(part) for part in re.split(r"[,;]", class_text) if part.strip()] or [""]
    subjects = [part.strip() for part in re.split(r"[,;]", subject_text) if part.strip()] or [""]
    return tuple(Teaching(c, s) for c in classes for s in subjects if c or s)
