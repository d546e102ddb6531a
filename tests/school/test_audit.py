"""The audit log: a chain that shows changes, and looking things up in it."""

from datetime import timedelta

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kept_people import KeptPeople

from deepedu.base.errors import StoreError
from deepedu.school.audit import entries, log, record, verify
from deepedu.school.audit_search import AuditFilter, actions, all_entries, find_entries
from deepedu.school.erasure import erase
from deepedu.store.tables import AuditEntry, now


@pytest.fixture
def told(kept: KeptPeople) -> KeptPeople:
    """Five entries: the first of ``keep_people``, then four."""
    admin, an, lan = (kept[name].public_id for name in ("admin", "an", "lan"))
    log(kept.database, lan, "transcript.view", an, "conversation:1")
    log(kept.database, admin, "person.export", an)
    log(kept.database, admin, "person.password", lan)
    log(kept.database, admin, "guardian.grant", kept["me.an"].public_id, an)
    return kept


def test_the_chain_holds(told: KeptPeople) -> None:
    assert verify(told.database) == 5
    assert [each.number for each in entries(told.database)] == [5, 4, 3, 2, 1]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(
    number=st.integers(1, 5),
    column=st.sampled_from(["actor", "action", "subject", "detail", "digest", "at"]),
)
def test_any_change_of_any_entry_is_found(told: KeptPeople, number: int, column: str) -> None:
    with told.database.write() as session:
        row = session.get_one(AuditEntry, number)
        before = getattr(row, column)
        setattr(row, column, before + timedelta(seconds=1) if column == "at" else f"x{before[1:]}")
    with pytest.raises(StoreError, match="changed"):
        verify(told.database)
    with told.database.write() as session:
        setattr(session.get_one(AuditEntry, number), column, before)
    assert verify(told.database) == 5


@pytest.mark.parametrize("number", [2, 3, 4])
def test_a_missing_entry_is_found(told: KeptPeople, number: int) -> None:
    with told.database.write() as session:
        session.execute(sa.delete(AuditEntry).where(AuditEntry.number == number))
    with pytest.raises(StoreError, match=f"lacks entry {number}"):
        verify(told.database)


def test_an_entry_stands_or_falls_with_what_it_tells(told: KeptPeople) -> None:
    def fail_after_recording() -> None:
        with told.database.write() as session:
            record(session, "system", "test", "school")
            raise StoreError("đĩa đầy")

    with pytest.raises(StoreError, match="đĩa đầy"):
        fail_after_recording()
    assert verify(told.database) == 5


def found(kept: KeptPeople, **wanted: object) -> list[str]:
    return [each.action for each in find_entries(kept.database, AuditFilter(**wanted)).entries]  # pyright: ignore[reportArgumentType]


def test_entries_of_a_person_by_any_name_of_the_person(told: KeptPeople) -> None:
    about_an = ["guardian.grant", "person.export", "transcript.view", "person.create"]
    for who in ("an", " AN ", "code.an", told["an"].public_id):
        assert found(told, person=who) == about_an, who
    assert found(told, person="lan") == ["person.password", "transcript.view"]
    page = find_entries(told.database, AuditFilter(person="khong-co-ai"))
    assert (list(page.entries), page.is_unknown) == ([], True)


def test_entries_of_who_was_erased_are_found_by_public_id(told: KeptPeople) -> None:
    an = told["an"]
    erase(told.database, an.public_id, reason="left", by=told["admin"])
    page = find_entries(told.database, AuditFilter(person=an.public_id))
    assert page.entries[0].action == "person.erase"
    assert an.public_id not in page.names
    assert page.names[told["admin"].public_id] == told["admin"].full_name


def test_entries_by_action_and_day(told: KeptPeople) -> None:
    assert found(told, action="person.export") == ["person.export"]
    assert found(told, action="person") == ["person.password", "person.export", "person.create"]
    assert found(told, action="pers%") == []
    today = now().astimezone().date()
    assert len(found(told, first=today, last=today)) == 5
    assert found(told, first=today + timedelta(days=1)) == []
    assert found(told, last=today - timedelta(days=1)) == []
    assert actions(told.database) == sorted(
        {"person.create", "transcript.view", "person.export", "person.password", "guardian.grant"}
    )


def test_pages_hold_every_entry_once(told: KeptPeople) -> None:
    numbers: list[int] = []
    before = None
    while True:
        page = find_entries(told.database, AuditFilter(), before=before, limit=2)
        numbers += [each.number for each in page.entries]
        before = page.older
        if before is None:
            break
    assert numbers == [5, 4, 3, 2, 1]
    assert [each.number for each in all_entries(told.database, AuditFilter())] == numbers
