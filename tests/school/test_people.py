"""People as an admin finds and changes them, and importing a roster: all in one transaction, each change audited."""

import threading
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deepedu.base.config import StoreSettings
from deepedu.base.errors import BadRequest, NotFound, NotSignedIn, WrongPassword
from deepedu.school import audit, class_changes, people
from deepedu.school.accounts import Account, account_of, check_password, create_person, open_session, signed_in
from deepedu.school.class_changes import ClassForm
from deepedu.school.classes import children_of, enrol, members
from deepedu.school.directory import find_people, name_order, person_detail
from deepedu.school.overview import BACKUP_NOTE, overview
from deepedu.school.people import BadField, Details
from deepedu.school.roster_file import read_roster
from deepedu.school.roster_import import ImportPreview, SchoolChanged, import_roster, preview_import
from deepedu.store import Database
from deepedu.store.tables import ClassMember, Guardianship, Person, SchoolClass

YEAR = "2026-2027"
ROSTER = (
    "Mã học sinh,Họ và tên,Lớp,Ngày sinh,Họ tên mẹ,SĐT mẹ\n"
    "HS001,Nguyễn Văn An,6A,01/02/2015,Hoàng Thu Hà,0901234567\n"
    "HS002,Trần Thị Bình,6A,03/04/2015,,\n"
    "HS003,Lê Mai Chi,6B,05/06/2015,Hoàng Thu Hà,0901234567\n"
)


@pytest.fixture
def database(tmp_path: Path):
    database = Database(StoreSettings(data_dir=tmp_path / "data"))
    yield database
    database.close()


@pytest.fixture
def admin(database: Database) -> Account:
    return people.add_first_admin(database, "admin", "Vũ Quản Trị", actor=audit.SYSTEM).account


def add(database: Database, username: str, name: str, role: str = "student", **details: str) -> Account:
    with database.write() as session:
        return account_of(create_person(session, role, username, name, **details))  # pyright: ignore[reportArgumentType]


def preview(database: Database, text: str = ROSTER, year: str = YEAR) -> ImportPreview:
    return preview_import(database, read_roster(text.encode(), "danh-sach.csv"), year)


def actions(database: Database) -> list[str]:
    return [entry.action for entry in reversed(audit.entries(database, limit=10_000))]


# --- Finding ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", ["Nguyễn Ánh", "nguyen anh", "ANH ngu", "Nguye\u0302\u0303n", "anh.n", "hs-07", "  "])
def test_search_takes_words_as_they_are_typed(database: Database, words: str) -> None:
    add(database, "anh.n", "Nguyễn Ngọc Ánh", code="HS-07")
    assert [each.account.username for each in find_people(database, words=words).people] == ["anh.n"]


@pytest.mark.parametrize("words", ["guyen", "anh binh", "%", "_"])
def test_search_finds_beginnings_of_words_and_knows_no_wildcards(database: Database, words: str) -> None:
    add(database, "x1", "Nguyễn Ngọc Ánh")
    assert find_people(database, words=words).total == 0


def test_lists_are_by_given_name_and_paged(database: Database) -> None:
    with database.write() as session:
        for number in range(120):
            create_person(session, "student", f"hs{number:03}", f"Trần Văn {chr(65 + number % 26)}{number:03}")
    first, last = find_people(database), find_people(database, page=99)
    assert (first.total, first.pages, len(first.people), last.page, len(last.people)) == (120, 3, 50, 3, 20)
    names = [each.account.full_name for page in (1, 2, 3) for each in find_people(database, page=page).people]
    assert names == sorted(names, key=name_order)
    assert len(set(names)) == 120


def test_filters(database: Database, admin: Account) -> None:
    an, lan = add(database, "an", "An"), add(database, "lan", "Lan", "teacher")
    class_id = class_changes.add_class(database, admin.public_id, ClassForm("6A", YEAR))
    class_changes.add_members(database, admin.public_id, class_id, "an")
    people.lock(database, admin.public_id, lan.public_id)

    def found(**chosen: object) -> set[str]:
        return {each.account.username for each in find_people(database, **chosen).people}  # pyright: ignore[reportArgumentType]

    assert found(role="teacher") == {"lan"}
    assert found(class_id=class_id) == {"an"}
    assert found(state="locked") == {"lan"}
    assert found(state="unused") == {"an", "admin"}
    assert found(state="no_consent") == {"an"}
    assert found(role="nonsense", state="nonsense") == {"an", "lan", "admin"}
    assert person_detail(database, an.public_id).classes == ((class_id, f"6A ({YEAR})"),)


# --- Changing ---------------------------------------------------------------------------------------------------------


def test_the_first_admin_is_made_once(database: Database) -> None:
    slip = people.add_first_admin(database, "Admin", "Vũ Quản Trị", actor=audit.SYSTEM)
    account = check_password(database, "admin", slip.password)
    assert (account.role, account.must_change_password) == ("admin", True)
    with pytest.raises(BadRequest, match="đã có tài khoản quản trị"):
        people.add_first_admin(database, "khac", "Khác", actor=audit.SYSTEM)
    assert actions(database) == ["person.create"]


def test_a_new_person_signs_in_with_the_password_on_the_slip(database: Database, admin: Account) -> None:
    class_id = class_changes.add_class(database, admin.public_id, ClassForm("6A", YEAR))
    slip = people.add_person(database, admin.public_id, "student", Details(" Lê  An ", "An"), class_ids=[class_id])
    assert check_password(database, "an", slip.password).full_name == "Lê An"
    assert [each.username for each in members(database, class_id, "student")] == ["an"]
    with pytest.raises(NotFound):
        people.add_person(database, admin.public_id, "student", Details("Lê Bình", "binh"), class_ids=[class_id + 1])
    # Nothing of what failed is there.
    assert find_people(database, words="binh").total == 0


@pytest.mark.parametrize(
    ("field", "details"),
    [
        ("full_name", Details("  ", "moi")),
        ("full_name", Details("x" * 201, "moi")),
        ("username", Details("Mới", "tên có dấu")),
        ("username", Details("Mới", "")),
        ("username", Details("Mới", "AN")),
        ("code", Details("Mới", "moi", code="HS1")),
        ("code", Details("Mới", "moi", code="x" * 65)),
        ("email", Details("Mới", "moi", email="khong phai thu")),
        ("phone", Details("Mới", "moi", phone="goi cho me")),
    ],
)
def test_what_cannot_be_taken_is_told_with_its_field(
    database: Database, admin: Account, field: str, details: Details
) -> None:
    add(database, "an", "An", code="HS1")
    other = add(database, "binh", "Bình")
    with pytest.raises(BadField) as told:
        people.add_person(database, admin.public_id, "student", details)
    assert told.value.field == field
    before = actions(database)
    with pytest.raises(BadField) as told:
        people.change_person(database, admin.public_id, other.public_id, details)
    assert (told.value.field, actions(database)) == (field, before)


def test_a_change_is_audited_by_field_and_without_values(database: Database, admin: Account) -> None:
    an = add(database, "an", "An")
    details = Details("Nguyễn Văn An", "an", email="an@truong.edu.vn")
    assert people.change_person(database, admin.public_id, an.public_id, details)
    assert not people.change_person(database, admin.public_id, an.public_id, details)
    entry = audit.entries(database, about=an.public_id)[0]
    assert (entry.actor, entry.action, entry.detail) == (admin.public_id, "person.change", "full_name, email")
    assert audit.verify(database) == 2


def test_a_new_password_ends_the_old_one_and_all_sign_ins(database: Database, admin: Account) -> None:
    first = people.add_person(database, admin.public_id, "student", Details("An", "an"))
    token = open_session(database, first.account.id, hours=1)
    second = people.reset_password(database, admin.public_id, first.account.public_id)
    with pytest.raises(NotSignedIn):
        signed_in(database, token, hours=1)
    with pytest.raises(WrongPassword):
        check_password(database, "an", first.password)
    assert check_password(database, "an", second.password).must_change_password
    with database.read() as session:
        assert second.password not in str(session.execute(sa.select(Person.__table__)).all())


def test_a_locked_account_is_out_at_once_and_back_when_unlocked(database: Database, admin: Account) -> None:
    slip = people.add_person(database, admin.public_id, "student", Details("An", "an"))
    token = open_session(database, slip.account.id, hours=1)
    people.lock(database, admin.public_id, slip.account.public_id)
    with pytest.raises(NotSignedIn):
        signed_in(database, token, hours=1)
    with pytest.raises(WrongPassword):
        check_password(database, "an", slip.password)
    people.unlock(database, admin.public_id, slip.account.public_id)
    assert check_password(database, "an", slip.password).username == "an"


def test_the_last_admin_stays_one(database: Database, admin: Account) -> None:
    with pytest.raises(BadRequest, match="cuối cùng"):
        people.lock(database, admin.public_id, admin.public_id)
    with pytest.raises(BadField, match="cuối cùng"):
        people.change_person(database, admin.public_id, admin.public_id, Details("Vũ", "admin"), "teacher")
    second = people.add_person(database, admin.public_id, "admin", Details("Hai", "hai")).account
    people.lock(database, admin.public_id, second.public_id)
    # One that is locked is no help.
    with pytest.raises(BadRequest, match="cuối cùng"):
        people.lock(database, admin.public_id, admin.public_id)
    people.unlock(database, admin.public_id, second.public_id)
    people.change_person(database, admin.public_id, admin.public_id, Details("Vũ", "admin"), "teacher")
    with pytest.raises(BadRequest, match="cuối cùng"):
        people.lock(database, admin.public_id, second.public_id)


def test_two_admins_who_lock_each_other_at_once_leave_one(database: Database, admin: Account) -> None:
    second = people.add_person(database, admin.public_id, "admin", Details("Hai", "hai")).account
    refused: list[BadRequest] = []
    both = threading.Barrier(2)

    def lock(actor: Account, other: Account) -> None:
        both.wait()
        try:
            people.lock(database, actor.public_id, other.public_id)
        except BadRequest as error:
            refused.append(error)

    threads = [threading.Thread(target=lock, args=pair) for pair in ((admin, second), (second, admin))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 1
    assert people.has_admin(database)


@pytest.mark.parametrize("role", ["student", "guardian", "admin", "nobody"])
def test_roles_change_within_the_staff_only(database: Database, admin: Account, role: str) -> None:
    one = add(database, "an", "An", "student" if role == "admin" else "teacher")
    with pytest.raises(BadField) as told:
        people.change_person(database, admin.public_id, one.public_id, Details("An", "an"), role)
    assert told.value.field == "role"


def test_a_guardian_sees_a_child_until_it_is_revoked(database: Database, admin: Account) -> None:
    an, mother = add(database, "an", "An", code="HS1"), add(database, "me.an", "Hà", "guardian")
    people.tie(database, admin.public_id, mother.public_id, "HS1")
    assert [each.username for each in children_of(database, mother)] == ["an"]
    assert [each.username for each in person_detail(database, an.public_id).tied] == ["me.an"]
    people.untie(database, admin.public_id, an.public_id, mother.public_id)
    assert children_of(database, mother) == []
    people.tie(database, admin.public_id, an.public_id, " ME.AN ")
    assert len(children_of(database, mother)) == 1
    assert actions(database)[-3:] == ["guardian.grant", "guardian.revoke", "guardian.grant"]
    for one, who in ((an, "an"), (an, "nobody"), (mother, "me.an"), (admin, "an")):
        with pytest.raises(BadField):
            people.tie(database, admin.public_id, one.public_id, who)


def test_slips_are_for_those_who_never_changed_their_password(database: Database, admin: Account) -> None:
    class_id = class_changes.add_class(database, admin.public_id, ClassForm("6A", YEAR))
    add(database, "an", "An")
    with database.write() as session:
        used = create_person(session, "student", "binh", "Bình", password="mot-cau-de-nho", must_change_password=False)
        enrol(session, class_id, used.id)
    class_changes.add_members(database, admin.public_id, class_id, "an")
    slips = people.renew_unused(database, admin.public_id, class_id)
    assert [slip.account.username for slip in slips] == ["an"]
    assert check_password(database, "an", slips[0].password)
    assert check_password(database, "binh", "mot-cau-de-nho")
    with pytest.raises(NotFound):
        people.renew_unused(database, admin.public_id, class_id + 1)


# --- Classes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "form"),
    [
        ("name", ClassForm(" ", YEAR)),
        ("name", ClassForm("6A", YEAR)),
        ("name", ClassForm("x" * 65, YEAR)),
        ("school_year", ClassForm("6B", "2026")),
        ("school_year", ClassForm("6B", "2026-2028")),
        ("grade", ClassForm("6B", YEAR, "13")),
        ("grade", ClassForm("6B", YEAR, "sáu")),
        ("policy", ClassForm("6B", YEAR, "6", "free")),
    ],
)
def test_classes_that_cannot_be(database: Database, admin: Account, field: str, form: ClassForm) -> None:
    class_changes.add_class(database, admin.public_id, ClassForm("6A", YEAR))
    other = class_changes.add_class(database, admin.public_id, ClassForm("6Z", YEAR))
    for call in (
        lambda: class_changes.add_class(database, admin.public_id, form),
        lambda: class_changes.change_class(database, admin.public_id, other, form),
    ):
        with pytest.raises(BadField) as told:
            call()
        assert told.value.field == field


def test_adding_members_tells_whom_it_does_not_know(database: Database, admin: Account) -> None:
    class_id = class_changes.add_class(database, admin.public_id, ClassForm("6A", f" {YEAR.replace('-', ' – ')} ", "6"))
    add(database, "an", "An", code="HS 01")
    add(database, "lan", "Lan", "teacher")
    add(database, "me", "Mẹ", "guardian")
    done = class_changes.add_members(database, admin.public_id, class_id, "hs 99; HS 01\nLAN, me\n lan")
    assert (done.added, done.unknown) == (2, ("hs 99", "me"))
    assert class_changes.add_members(database, admin.public_id, class_id, "an").added == 0
    listed = class_changes.list_classes(database, YEAR)[0]
    assert (listed.students, listed.teachers, listed.grade) == (1, 1, 6)


def test_moving_up_keeps_the_class_and_lets_go_of_who_does_not_come(database: Database, admin: Account) -> None:
    class_id = class_changes.add_class(database, admin.public_id, ClassForm("6A", YEAR, "6", "explain"))
    an, _, lan = add(database, "an", "An"), add(database, "binh", "Bình"), add(database, "lan", "Lan", "teacher")
    class_changes.add_members(database, admin.public_id, class_id, "an,binh,lan")
    form = class_changes.next_year(ClassForm("6A", YEAR, "6", "explain"))
    assert form == ClassForm("7A", "2027-2028", "7", "explain")
    staying = {an.public_id, lan.public_id}
    assert class_changes.move_up(database, admin.public_id, class_id, form, staying) == (2, 1)
    listed = class_changes.list_classes(database)[0]
    assert (listed.id, listed.name, listed.school_year, listed.grade) == (class_id, "7A", "2027-2028", 7)
    assert [each.username for each in members(database, class_id, "student")] == ["an"]
    with pytest.raises(BadField):
        class_changes.move_up(database, admin.public_id, class_id, form, staying)


@pytest.mark.parametrize(("name", "grade", "then"), [("12A1", "12", "12A1"), ("Toán", "", "Toán"), ("10A", "1", "10A")])
def test_names_that_do_not_begin_with_the_grade_stay(name: str, grade: str, then: str) -> None:
    assert class_changes.next_year(ClassForm(name, YEAR, grade)).name == then


# --- Import -----------------------------------------------------------------------------------------------------------


def test_an_import_makes_classes_people_and_ties(database: Database, admin: Account) -> None:
    shown = preview(database)
    assert shown.new_classes == ("6A", "6B")
    assert find_people(database).total == 1, "a preview writes nothing"
    done = import_roster(database, admin.public_id, shown)
    assert {each.full_name for each in done.passwords} == {
        "Nguyễn Văn An", "Trần Thị Bình", "Lê Mai Chi", "Hoàng Thu Hà"
    }  # fmt: skip
    for each in done.passwords:
        assert check_password(database, each.username, each.password).must_change_password
    mother = next(each for each in done.passwords if each.full_name == "Hoàng Thu Hà")
    assert mother.class_name in ("6A", "6B"), "a guardian's password is handed out in the child's class"
    with database.read() as session:
        assert session.scalar(sa.select(sa.func.count()).select_from(Guardianship)) == 2
        assert session.scalar(sa.select(sa.func.count()).select_from(ClassMember)) == 3
    assert actions(database)[-1] == "import"
    assert actions(database).count("person.create") == 5
    assert audit.verify(database) > 0


def test_importing_twice_changes_nothing(database: Database, admin: Account) -> None:
    import_roster(database, admin.public_id, preview(database))
    before = actions(database)
    again = preview(database)
    assert not again.changes_anything
    assert import_roster(database, admin.public_id, again).passwords == ()
    assert actions(database) == before


def test_teachers_join_the_classes_they_teach_once(database: Database, admin: Account) -> None:
    text = 'Mã giáo viên,Họ và tên,Lớp dạy,Môn\nGV1,Phạm Thị Lan,"6A, 6B",Toán\n'
    import_roster(database, admin.public_id, preview(database, text))
    assert not preview(database, text).changes_anything
    assert {each.name: each.teachers for each in class_changes.list_classes(database)} == {"6A": 1, "6B": 1}


def test_a_pupil_who_changed_class_leaves_the_old_one(database: Database, admin: Account) -> None:
    import_roster(database, admin.public_id, preview(database))
    done = import_roster(database, admin.public_id, preview(database, ROSTER.replace("An,6A", "An,6B")))
    assert [match.row.full_name for match in done.preview.plan.update] == ["Nguyễn Văn An"]
    assert {each.name: each.students for each in class_changes.list_classes(database)} == {"6A": 1, "6B": 2}
    assert actions(database)[-4:] == ["class.leave", "class.join", "person.change", "import"]


def test_another_year_leaves_this_years_classes_alone(database: Database, admin: Account) -> None:
    import_roster(database, admin.public_id, preview(database))
    import_roster(
        database, admin.public_id, preview(database, ROSTER.replace("6A", "7A").replace("6B", "7B"), "2027-2028")
    )
    listed = {(each.name, each.school_year): each.students for each in class_changes.list_classes(database)}
    assert listed == {("6A", YEAR): 2, ("6B", YEAR): 1, ("7A", "2027-2028"): 2, ("7B", "2027-2028"): 1}


def test_of_two_imports_at_once_one_writes_and_the_other_is_told(database: Database, admin: Account) -> None:
    shown = [preview(database), preview(database)]
    outcomes: list[object] = []
    both = threading.Barrier(2)

    def run(one: ImportPreview) -> None:
        both.wait()
        try:
            outcomes.append(import_roster(database, admin.public_id, one))
        except SchoolChanged as error:
            outcomes.append(error)

    threads = [threading.Thread(target=run, args=(one,)) for one in shown]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(type(each).__name__ for each in outcomes) == ["Imported", "SchoolChanged"]
    assert find_people(database).total == 5


def test_what_somebody_else_changed_meanwhile_is_seen(database: Database, admin: Account) -> None:
    shown = preview(database)
    people.add_person(database, admin.public_id, "student", Details("Nguyễn Văn An", "an", code="HS001"))
    with pytest.raises(SchoolChanged):
        import_roster(database, admin.public_id, shown)
    assert find_people(database).total == 2


def test_an_import_that_fails_leaves_nothing(
    database: Database, admin: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = preview(database)

    def fail(*_: object) -> None:
        raise RuntimeError("in the middle")

    monkeypatch.setattr("deepedu.school.roster_import._Import._note_code", fail)
    with pytest.raises(RuntimeError):
        import_roster(database, admin.public_id, shown)
    with database.read() as session:
        assert session.scalar(sa.select(sa.func.count()).select_from(Person)) == 1
        assert session.scalar(sa.select(sa.func.count()).select_from(SchoolClass)) == 0
    assert actions(database) == ["person.create"]


def test_a_school_of_two_thousand(database: Database, admin: Account) -> None:
    given_names = [f"{chr(65 + n // 100)}{chr(97 + n % 100 // 10)}{chr(97 + n % 10)}" for n in range(2000)]
    rows = [
        f"HS{n:05},Nguyễn Văn {name},{6 + n % 4}A{n // 4 % 12 + 1},01/01/201{n % 4 + 2}"
        for n, name in enumerate(given_names)
    ]
    text = "Mã học sinh,Họ và tên,Lớp,Ngày sinh\n" + "\n".join(rows)
    done = import_roster(database, admin.public_id, preview(database, text))
    assert len(done.passwords) == len({each.username for each in done.passwords}) == 2000
    assert len(class_changes.list_classes(database, YEAR)) == 48
    assert not preview(database, text).changes_anything
    assert find_people(database, words="hs01999").total == 1


_names = st.lists(st.sampled_from(["Nguyễn", "Trần", "Văn", "Thị", "An", "Bình", "Đức"]), min_size=2, max_size=4)


@given(st.lists(st.tuples(_names, st.sampled_from(["6A", "6B", "12C3"])), min_size=1, max_size=6))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_was_imported_is_not_imported_again(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[list[str], str]]
) -> None:
    database = Database(StoreSettings(data_dir=tmp_path_factory.mktemp("school")))
    lines = [f"HS{n},{' '.join(name)},{class_name}" for n, (name, class_name) in enumerate(rows)]
    text = "Mã học sinh,Họ và tên,Lớp\n" + "\n".join(lines)
    import_roster(database, audit.SYSTEM, preview(database, text))
    assert not preview(database, text).changes_anything
    assert audit.verify(database) > 0
    database.close()


# --- At a glance ------------------------------------------------------------------------------------------------------


def test_the_school_at_a_glance(database: Database, admin: Account) -> None:
    import_roster(database, admin.public_id, preview(database))
    seen = overview(database, YEAR)
    assert dict(seen.people) == {"student": 3, "teacher": 0, "guardian": 1, "admin": 1}
    assert (seen.classes, seen.without_consent, seen.unused, seen.locked, seen.last_backup) == (2, 3, 5, 0, None)
    assert overview(database, "2030-2031").classes == 0


@pytest.mark.parametrize(
    ("note", "told"),
    [('{"at": "2026-09-01T02:00:00+07:00"}', True), ('{"at": "2026-09-01"}', False), ("[]", False), ("{", False)],
)
def test_the_last_backup_is_what_a_file_tells(database: Database, note: str, told: bool) -> None:
    (database.data_dir / BACKUP_NOTE).write_text(note, encoding="utf-8")
    assert (overview(database, YEAR).last_backup is not None) == told


def test_who_is_unknown_is_not_found(database: Database, admin: Account) -> None:
    for call in (
        lambda: person_detail(database, "0" * 16),
        lambda: people.lock(database, admin.public_id, "0" * 16),
        lambda: people.unlock(database, admin.public_id, "0" * 16),
        lambda: people.sign_out(database, admin.public_id, "0" * 16),
        lambda: people.reset_password(database, admin.public_id, "0" * 16),
        lambda: people.change_person(database, admin.public_id, "0" * 16, Details("An", "an")),
        lambda: people.tie(database, admin.public_id, "0" * 16, "an"),
        lambda: people.untie(database, admin.public_id, admin.public_id, admin.public_id),
        lambda: class_changes.change_class(database, admin.public_id, 9, ClassForm("6A", YEAR)),
        lambda: class_changes.add_members(database, admin.public_id, 9, "an"),
        lambda: class_changes.remove_member(database, admin.public_id, 9, admin.public_id),
        lambda: class_changes.move_up(database, admin.public_id, 9, ClassForm("6A", YEAR), ()),
    ):
        with pytest.raises(NotFound):
            call()
    assert actions(database) == ["person.create"]
