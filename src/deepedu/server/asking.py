"""Who asks, and by which rules: from an account to what ``tutor.guided`` has to know."""

import sqlalchemy as sa

from deepedu.base.config import SchoolSettings
from deepedu.base.errors import ConfigError
from deepedu.school.accounts import Account
from deepedu.school.classes import classes_of, names_in_classes, strictest_policy
from deepedu.store import Database
from deepedu.store.tables import QuizAssignment, now
from deepedu.tutor.guided import Pupil
from deepedu.tutor.hints import Policy
from deepedu.tutor.safety import DEFAULT_HELP_LINES, HelpLine


def pupil_of(database: Database, account: Account) -> Pupil:
    """A pupil with the policy that holds at this moment: of the present year's classes, or of an exam that is open."""
    assert account.learner_id is not None, "only pupils have a learner id"
    classrooms = classes_of(database, account)
    # Old classes have no say; the list begins with the newest year.
    classrooms = [each for each in classrooms if each.school_year == classrooms[0].school_year]
    policy = Policy(strictest_policy(classrooms))
    if _sits_exam(database, [each.id for each in classrooms]):
        policy = Policy.EXAM_OFF
    return Pupil(account.learner_id, policy, names_in_classes(database, account))


def help_lines(settings: SchoolSettings) -> tuple[HelpLine, ...]:
    """The school's own help lines, else the national ones.

    Raises:
        ConfigError: one of them is not "name: number".
    """
    lines: list[HelpLine] = []
    for line in settings.help_lines:
        name, _, number = line.rpartition(":")
        if not name.strip() or not any(character.isdigit() for character in number):
            raise ConfigError(f'school.help_lines: expected "name: number", came {line!r}')
        lines.append(HelpLine(name.strip(), number.strip()))
    return tuple(lines) or DEFAULT_HELP_LINES


def _sits_exam(database: Database, class_ids: list[int]) -> bool:
    present = now()
    is_open = sa.select(QuizAssignment.id).where(
        QuizAssignment.class_id.in_(class_ids),
        QuizAssignment.is_exam,
        QuizAssignment.opens_at <= present,
        sa.or_(QuizAssignment.closes_at.is_(None), QuizAssignment.closes_at > present),
    )
    with database.read() as session:
        return session.scalar(is_open.limit(1)) is not None
