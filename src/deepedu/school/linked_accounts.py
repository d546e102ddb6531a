"""Accounts that sign in elsewhere, by OpenID Connect: found once by e-mail or username, and bound from then on."""

import unicodedata
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.orm import Session

from deepedu.base.errors import NotAllowed
from deepedu.school.accounts import Account, account_of
from deepedu.school.audit import record
from deepedu.school.people import person_of
from deepedu.store import Database
from deepedu.store.tables import Person

LONGEST_SUBJECT = 255


@dataclass(frozen=True)
class Identity:
    """Who somebody is elsewhere.

    ``subject`` is the issuer's own and lasting name for them; ``name`` what they are called by, an e-mail address or a
    username. ``may_be_email``, ``may_be_username``: what ``name`` may be taken for here; an address that nobody
    verified is neither.
    """

    issuer: str
    subject: str
    name: str
    may_be_email: bool = True
    may_be_username: bool = True

    @property
    def key(self) -> str:
        """As ``people.oidc_subject`` holds it."""
        return f"{self.issuer} {self.subject}"


def sign_in_linked(database: Database, who: Identity) -> Account:
    """The account of who signed in elsewhere. The first time it is found by name and bound; no account is made.

    An initial password that was never changed ends here: it is not needed, and whoever finds its slip of paper cannot
    use it.

    Raises:
        NotAllowed: nobody of that name, more than one, a locked account, or one that is bound to somebody else.
    """
    if len(who.key) > LONGEST_SUBJECT:
        raise NotAllowed("Tài khoản của nơi đăng nhập có mã quá dài nên không dùng được: hãy báo người quản trị.")
    with database.write() as session:
        person = session.scalar(sa.select(Person).where(Person.oidc_subject == who.key))
        if person is None:
            person = _named(session, who)
            person.oidc_subject = who.key
            record(session, person.public_id, "person.link", person.public_id)
        _check_active(person)
        if person.must_change_password:
            person.password_hash, person.must_change_password = None, False
        session.flush()
        return account_of(person)


def unlink(session: Session, actor: str, public_id: str) -> None:
    """Takes the binding away, so that the next sign-in elsewhere is matched by name again; part of the session's
    transaction.

    Raises:
        NotFound: no such person.
    """
    person = person_of(session, public_id)
    if person.oidc_subject is not None:
        person.oidc_subject = None
        record(session, actor, "person.unlink", public_id)


def _named(session: Session, who: Identity) -> Person:
    name = _folded(who.name)
    rows = session.execute(sa.select(Person.id, Person.username, Person.email, Person.is_active)).all()
    found = [
        (row.id, row.is_active)
        for row in rows
        if (who.may_be_username and _folded(row.username) == name)
        or (who.may_be_email and row.email is not None and _folded(row.email) == name)
    ]
    # Somebody who left and came back has an old account beside the new one.
    active = [person_id for person_id, is_active in found if is_active]
    if len(active) > 1:
        raise NotAllowed(
            f"Có {len(active)} tài khoản ở đây cùng mang {who.name!r} nên không biết là ai: người quản trị cần ghi thư "
            "điện tử riêng cho từng người."
        )
    if not found:
        raise NotAllowed(
            f"Chưa có tài khoản nào ở đây mang {who.name!r}: người quản trị cần ghi đúng thư điện tử hoặc tên đăng "
            "nhập này vào một tài khoản."
        )
    person = session.get_one(Person, (active or [found[0][0]])[0])
    # The binding of another issuer is from before the school changed it.
    if person.oidc_subject is not None and person.oidc_subject.startswith(f"{who.issuer} "):
        raise NotAllowed(
            f"Tài khoản mang {who.name!r} đã gắn với một người khác của nơi đăng nhập: hãy báo người quản trị."
        )
    _check_active(person)
    return person


def _check_active(person: Person) -> None:
    if not person.is_active:
        raise NotAllowed("Tài khoản này đang bị khóa: hãy hỏi người quản trị.")


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).strip().casefold()
