"""Keys of programs: shown once, kept as a digest, taken back at once."""

from datetime import timedelta

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from deepedu.base.errors import NotFound, WrongKey
from deepedu.school import audit
from deepedu.school.accounts import SEEN_EVERY, Account, Role, account_of, create_person
from deepedu.school.api_keys import (
    LONGEST_LABEL,
    MOST_KEYS,
    PREFIX,
    KeyAccount,
    account_of_key,
    create_key,
    key_of_owner,
    keys_of,
    revoke_key,
)
from deepedu.school.people import BadField
from deepedu.store import Database
from deepedu.store.tables import ApiKey, Person, now

PEOPLE: dict[str, Role] = {"lan": "teacher", "minh": "teacher", "admin": "admin", "an": "student"}


@pytest.fixture
def people(sample_library: Database) -> dict[str, Account]:
    with sample_library.write() as session:
        made = [create_person(session, role, username, f"Người {username}") for username, role in PEOPLE.items()]
        return {each.username: account_of(each) for each in made}


def make(database: Database, account: Account, label: str = "Moodle") -> str:
    with database.write() as session:
        return create_key(session, account.id, label)


def test_a_key_opens_in_its_makers_name(sample_library: Database, people: dict[str, Account]) -> None:
    key = make(sample_library, people["lan"])
    found = account_of_key(sample_library, key)
    assert (found.public_id, found.role) == (people["lan"].public_id, "teacher")
    assert key not in repr(found)


def test_only_the_digest_is_kept(sample_library: Database, people: dict[str, Account]) -> None:
    key = make(sample_library, people["lan"])
    assert key.startswith(PREFIX)
    assert len(key) > 40
    sample_library.scrub()
    for file in sample_library.data_dir.rglob("*"):
        assert not file.is_file() or key.encode() not in file.read_bytes()
    with sample_library.read() as session:
        assert key not in str(session.execute(sa.select(ApiKey.__table__)).all())


@pytest.mark.parametrize("wrong", ["", "dk-", "dk-khong-phai", "dk-é" * 10])
def test_what_is_no_key_opens_nothing(sample_library: Database, people: dict[str, Account], wrong: str) -> None:
    make(sample_library, people["lan"])
    with pytest.raises(WrongKey, match="/keys"):
        account_of_key(sample_library, wrong)


def test_a_revoked_key_opens_nothing(sample_library: Database, people: dict[str, Account]) -> None:
    key, other = make(sample_library, people["lan"]), make(sample_library, people["lan"], "Open WebUI")
    key_id = account_of_key(sample_library, key).key_id
    with sample_library.write() as session:
        revoke_key(session, people["lan"], key_id)
    with pytest.raises(WrongKey):
        account_of_key(sample_library, key)
    assert account_of_key(sample_library, other).username == "lan"
    with pytest.raises(NotFound), sample_library.write() as session:
        revoke_key(session, people["lan"], key_id)
    told = [(each.action, each.subject) for each in audit.entries(sample_library)]
    assert told[0] == ("key.revoke", f"key:{key_id}")
    assert ("key.create", f"key:{key_id}") in told
    assert all("Moodle" not in each.detail for each in audit.entries(sample_library))


def test_a_locked_account_locks_its_keys(sample_library: Database, people: dict[str, Account]) -> None:
    key = make(sample_library, people["lan"])
    with sample_library.write() as session:
        session.execute(sa.update(Person).where(Person.id == people["lan"].id).values(is_active=False))
    with pytest.raises(WrongKey):
        account_of_key(sample_library, key)


def test_others_keys_are_like_none(sample_library: Database, people: dict[str, Account]) -> None:
    key_id = account_of_key(sample_library, make(sample_library, people["lan"])).key_id
    make(sample_library, people["minh"], "Riêng")
    with pytest.raises(NotFound) as foreign, sample_library.write() as session:
        revoke_key(session, people["minh"], key_id)
    with pytest.raises(NotFound) as none, sample_library.write() as session:
        revoke_key(session, people["minh"], 999)
    assert str(foreign.value) == str(none.value)
    assert [each.label for each in keys_of(sample_library, people["minh"])] == ["Riêng"]
    assert {each.keeper.username for each in keys_of(sample_library, people["admin"])} == {"lan", "minh"}
    with sample_library.write() as session:
        revoke_key(session, people["admin"], key_id)
    assert [each.id for each in keys_of(sample_library, people["admin"])][-1] == key_id


@pytest.mark.parametrize("label", ["", "   ", "x" * (LONGEST_LABEL + 1)])
def test_labels_that_will_not_do(sample_library: Database, people: dict[str, Account], label: str) -> None:
    with pytest.raises(BadField) as error:
        make(sample_library, people["lan"], label)
    assert error.value.field == "label"
    assert keys_of(sample_library, people["lan"]) == []


def test_pupils_have_no_keys(sample_library: Database, people: dict[str, Account]) -> None:
    for person_id in (people["an"].id, 999):
        with pytest.raises(NotFound), sample_library.write() as session:
            create_key(session, person_id, "Moodle")


def test_there_are_not_too_many(sample_library: Database, people: dict[str, Account]) -> None:
    keys = [make(sample_library, people["lan"], f"Khóa {number}") for number in range(MOST_KEYS)]
    with pytest.raises(BadField, match="thu hồi"):
        make(sample_library, people["lan"])
    with sample_library.write() as session:
        revoke_key(session, people["lan"], account_of_key(sample_library, keys[0]).key_id)
    make(sample_library, people["lan"])


def test_use_is_noted_now_and_then(sample_library: Database, people: dict[str, Account]) -> None:
    key, begin = make(sample_library, people["lan"]), now()
    assert keys_of(sample_library, people["lan"])[0].last_used_at is None
    for after, noted in ((timedelta(), begin), (SEEN_EVERY / 2, begin), (SEEN_EVERY, begin + SEEN_EVERY)):
        account_of_key(sample_library, key, at=begin + after)
        assert keys_of(sample_library, people["lan"])[0].last_used_at == noted


def key_account(key_id: int, secret: str) -> KeyAccount:
    return KeyAccount(1, "p", "teacher", "lan", "Lan", None, False, "vi", key_id=key_id, secret=secret)


@given(st.tuples(st.integers(1, 9_999_999), st.text(min_size=1), st.text()), st.data())
def test_owners_are_stable_and_never_mixed(one: tuple[int, str, str], data: st.DataObject) -> None:
    key_id, secret, user = one
    owner = key_account(key_id, secret[:60]).owner_of(user)
    assert owner == key_account(key_id, secret[:60]).owner_of(user)
    # As long as the column.
    assert len(owner) <= 32
    other = data.draw(st.text().filter(lambda text: text != user))
    assert owner != key_account(key_id, secret[:60]).owner_of(other)
    assert owner != key_account(key_id + 1, secret[:60]).owner_of(user)


def test_an_owner_leads_to_its_key(sample_library: Database, people: dict[str, Account]) -> None:
    account = account_of_key(sample_library, make(sample_library, people["lan"]))
    found = key_of_owner(sample_library, account.owner_of("hs-17"))
    assert found is not None
    assert (found.label, found.keeper.username) == ("Moodle", "lan")
    for owner in (people["lan"].owner, people["an"].owner, "k999-" + "0" * 20, f"k{account.key_id}"):
        assert key_of_owner(sample_library, owner) is None
