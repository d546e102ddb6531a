"""Consent: the text and its digest, giving and withdrawing, the pupil's own word, forms for a whole class."""

import hashlib
from datetime import date
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kept_people import KeptPeople, rows_of

from deepedu.base.config import Settings
from deepedu.base.errors import BadRequest, NotFound
from deepedu.school.accounts import account_of, create_person
from deepedu.school.audit import entries
from deepedu.school.classes import enrol, has_consent
from deepedu.school.consent import (
    PaperForm,
    age_at,
    class_consents,
    consent_overview,
    consent_text,
    consents_of,
    give_consent,
    needs_assent,
    outside_servers,
    record_forms,
    withdraw_consent,
    withdrawn_students,
)
from deepedu.school.erasure import erase

TEXT = consent_text(Settings())


def settings(**layers: Any) -> Settings:
    return Settings.model_validate(layers)


@pytest.mark.parametrize("language", ["vi", "en"])
def test_the_text_names_the_school_and_its_periods(language: Literal["vi", "en"]) -> None:
    school = {"name": "THCS Vĩnh Hòa", "chat_days": 123, "attempt_days": 456, "audit_days": 789}
    text = consent_text(settings(school=school), language)
    for told in ("THCS Vĩnh Hòa", "123", "456", "789", "91/2025/QH15", "356/2025"):
        assert told in text.text
    assert "{" not in text.text
    assert text.sha256 == hashlib.sha256(text.text.encode()).hexdigest()
    assert text.name == f"2026-11.{language}-{text.sha256[:16]}"
    assert len(text.name) <= 32, "the column is that wide"


def test_both_languages_say_the_same_things() -> None:
    vietnamese, english = consent_text(Settings(), "vi").blocks, consent_text(Settings(), "en").blocks
    assert [(kind, len(lines)) for kind, lines in vietnamese] == [(kind, len(lines)) for kind, lines in english]
    assert vietnamese[0][0] == "title"


def test_the_text_is_true_of_the_settings() -> None:
    assert "không có gì được gửi ra ngoài" in TEXT.text
    outside = settings(llm={"url": "https://mo-hinh.example/v1"}, playbook={"judge_url": "http://127.0.0.1:1/v1"})
    assert outside_servers(outside) == ("mo-hinh.example",)
    told = consent_text(outside).text
    assert "mo-hinh.example" in told
    assert "không có gì được gửi ra ngoài" not in told
    assert "không xem được lời con hỏi" in TEXT.text
    open_to_guardians = consent_text(settings(school={"guardian_transcripts": True}))
    assert "đọc được cuộc trò chuyện" in open_to_guardians.text
    assert open_to_guardians.sha256 != TEXT.sha256


def test_a_consent_is_kept_with_text_digest_and_recorder(kept: KeptPeople) -> None:
    an, mother = kept["an"], kept["me.an"]
    withdraw_consent(kept.database, an, by=mother)
    assert not has_consent(kept.database, an)
    give_consent(kept.database, an, TEXT, guardian_name=" Hoàng  Thảo Hà ", assented=True, by=mother, guardian=mother)
    assert has_consent(kept.database, an)
    newest, first = consents_of(kept.database, an)
    assert (newest.guardian_name, newest.text_version) == ("Hoàng Thảo Hà", TEXT.name)
    assert (newest.sha256, newest.assented, newest.recorded_by) == (TEXT.sha256, True, mother.public_id)
    assert first.withdrawn_at is not None
    assert first.withdrawn_at <= newest.given_at
    row = rows_of(kept.database, "consents", lambda row: row.id == newest.id)[0]
    assert (row.guardian_id, row.recorded_by) == (mother.id, mother.id)


def test_the_audit_log_tells_of_consent_without_names(kept: KeptPeople) -> None:
    give_consent(kept.database, kept["an"], TEXT, guardian_name="Hoàng Thảo Hà", assented=True, by=kept["admin"])
    withdraw_consent(kept.database, kept["an"], by=kept["me.an"])
    told = [each for each in entries(kept.database) if each.action.startswith("consent.")]
    assert {(each.action, each.subject) for each in told} == {
        ("consent.give", kept["an"].public_id),
        ("consent.withdraw", kept["an"].public_id),
    }
    assert not [each for each in told if "Hoàng" in each.detail]


def test_withdrawing_stops_at_once_and_keeps_the_history(kept: KeptPeople) -> None:
    an = kept["an"]
    give_consent(kept.database, an, TEXT, guardian_name="Bố An", assented=True, by=kept["admin"])
    assert withdraw_consent(kept.database, an, by=kept["me.an"]) == 2
    assert not has_consent(kept.database, an)
    assert withdraw_consent(kept.database, an, by=kept["me.an"]) == 0
    assert len(consents_of(kept.database, an)) == 2
    assert [account for account, _ in withdrawn_students(kept.database)] == [an]
    erase(kept.database, an.public_id, reason="withdrawn", by=kept["admin"])
    assert withdrawn_students(kept.database) == []


@pytest.mark.parametrize(
    ("born", "day", "age"),
    [
        ("2019-12-01", date(2026, 11, 30), 6),
        ("2019-11-30", date(2026, 11, 30), 7),
        ("2020-02-29", date(2027, 2, 28), 6),
        ("2020-02-29", date(2027, 3, 1), 7),
        (None, date(2026, 11, 30), None),
        ("30/11/2019", date(2026, 11, 30), None),
    ],
)
def test_ages(born: str | None, day: date, age: int | None) -> None:
    assert age_at(born, day) == age
    assert needs_assent(born, day) == (age != 6)


@given(st.dates(date(2000, 1, 1), date(2030, 1, 1)), st.dates(date(2000, 1, 1), date(2060, 1, 1)))
def test_an_age_is_reached_on_the_birthday(born: date, day: date) -> None:
    age = age_at(born.isoformat(), day)
    assert age is not None
    last = born.replace(year=born.year + age) if (born.month, born.day) != (2, 29) else date(born.year + age, 2, 28)
    assert last <= day
    assert day.toordinal() - last.toordinal() <= 366


def test_a_pupil_from_seven_on_agrees_too(kept: KeptPeople) -> None:
    with pytest.raises(BadRequest, match="7 tuổi"):
        give_consent(kept.database, kept["an"], TEXT, guardian_name="Mẹ An", assented=False, by=kept["admin"])
    with kept.database.write() as session:
        row = create_person(session, "student", "be", "Lý Bé Con", birth_date=f"{date.today().year - 6}-12-31")
        small = account_of(row)
    give_consent(kept.database, small, TEXT, guardian_name="Bố bé", assented=False, by=kept["admin"])
    assert has_consent(kept.database, small)
    assert consents_of(kept.database, small)[0].assented is False


@pytest.mark.parametrize("name", ["", "  ", "x" * 201])
def test_a_guardian_has_a_name(kept: KeptPeople, name: str) -> None:
    with pytest.raises(BadRequest, match="Họ tên người giám hộ"):
        give_consent(kept.database, kept["an"], TEXT, guardian_name=name, assented=True, by=kept["admin"])


def test_forms_of_a_class_are_recorded_together_or_not_at_all(kept: KeptPeople) -> None:
    forms = [PaperForm(kept[name].public_id, "Người ký", True) for name in ("an", "binh")]
    before = len(rows_of(kept.database, "consents"))
    with pytest.raises(BadRequest, match="Trần Dạ Bình"):
        record_forms(kept.database, [forms[0], PaperForm(forms[1].public_id, "", True)], TEXT, by=kept["admin"])
    with pytest.raises(NotFound):
        record_forms(kept.database, [forms[0], PaperForm(kept["lan"].public_id, "x", True)], TEXT, by=kept["admin"])
    with pytest.raises(BadRequest, match="Chưa chọn"):
        record_forms(kept.database, [], TEXT, by=kept["admin"])
    assert len(rows_of(kept.database, "consents")) == before
    assert record_forms(kept.database, forms, TEXT, by=kept["admin"]) == 2
    assert len(rows_of(kept.database, "consents")) == before + 2


def test_who_of_a_class_lacks_consent(kept: KeptPeople) -> None:
    with kept.database.write() as session:
        new = create_person(session, "student", "chi", "Lê Chi")
        enrol(session, kept.class_id, new.id)
    withdraw_consent(kept.database, kept["binh"], by=kept["admin"])
    found = {each.student.username: each for each in class_consents(kept.database, kept.class_id)}
    assert list(found) == ["an", "binh", "chi"]
    assert found["an"].in_force is not None
    assert found["an"].guardians == (kept["me.an"].full_name,)
    assert (found["binh"].in_force, found["binh"].withdrawn_at is None) == (None, False)
    assert (found["chi"].in_force, found["chi"].withdrawn_at, found["chi"].needs_assent) == (None, None, True)
    (overview,) = consent_overview(kept.database)
    assert (overview.name, overview.students, overview.lacking) == ("6A", 3, 2)
