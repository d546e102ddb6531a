"""The teacher's desk: own classes, what each has learnt and asked, and how the tutor helps it.

A teacher sees the pupils of own classes only: every route asks ``class_for`` first, which answers for a foreign class
as for none at all.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.responses import Response

from deepedu.base.errors import NotFound
from deepedu.base.personal_data import mask
from deepedu.school import audit
from deepedu.school.accounts import Account
from deepedu.school.class_changes import ClassForm, change_class
from deepedu.school.classes import POLICIES, Classroom, class_for, classes_of, members
from deepedu.school.people import BadField, reset_password
from deepedu.search.evidence import Scope
from deepedu.server.access import Teacher
from deepedu.server.maths import to_html
from deepedu.server.pages import go, render
from deepedu.server.plots import Bar, bars
from deepedu.server.sheets import Cell, Kind, download
from deepedu.server.turn_view import views_of
from deepedu.server.tutor_routes import Services
from deepedu.store.flags import RaisedFlag, flags_of, mark_seen
from deepedu.store.tables import now
from deepedu.tutor import reliance
from deepedu.tutor.alike_questions import group_alike
from deepedu.tutor.class_traces import (
    class_cards,
    last_active,
    marked_answers,
    questions_of,
    quiz_items,
    stretches_of,
    turns_of,
)
from deepedu.tutor.class_view import HeatMap, Order, activity, by_owner, heat_map, local_day, most_missed, study_minutes
from deepedu.tutor.classwork import close_overdue, mastery_of

router = APIRouter(include_in_schema=False)
SHOWN_DAYS = 28
ANSWERS_PER_PAGE = 10
ANSWER_KINDS = ("grounding", "wrong")
Days = Annotated[Literal["7", "30", "90"], Query()]


@router.get("/teach", response_class=HTMLResponse)
def desk(request: Request, services: Services, account: Teacher) -> HTMLResponse:
    """The teacher's classes as cards; those of the newest year first."""
    cards = class_cards(services.database, classes_of(services.database, account), now())
    return render(request, "desk.html", account, cards=cards)


@router.get("/teach/reliance", response_class=HTMLResponse)
def reliance_page(request: Request, services: Services, account: Teacher) -> HTMLResponse:
    """What the school's answers stand on, week by week."""
    weeks = reliance.reliance(services.database, weeks=26)
    series = [Bar(f"{each.week:%d/%m}", tuple(100 * share for share in each.shares)) for each in weeks]
    plot = bars(series, "Câu trả lời dựa vào đâu, theo tuần", top=100, unit="%") if weeks else None
    return render(request, "desk_reliance.html", account, weeks=weeks, plot=plot)


# --- A class ---------------------------------------------------------------------------------------------------------


@router.get("/teach/classes/{class_id:int}", response_class=HTMLResponse)
def class_page(
    request: Request, services: Services, account: Teacher, class_id: int, sort: Order = "name"
) -> HTMLResponse:
    """A class: mastery, what was done day by day, its pupils, and the policy."""
    return _class(request, services, account, class_for(services.database, account, class_id), sort)


def _class(
    request: Request, services: Any, account: Account, classroom: Classroom, sort: Order, error: BadField | None = None
) -> HTMLResponse:
    database, present = services.database, now()
    students = members(database, classroom.id, "student")
    learners = _learners(students)
    stretches = stretches_of(database, learners, present - timedelta(days=SHOWN_DAYS))
    of = by_owner(stretches)
    days = activity(stretches, local_day(present), SHOWN_DAYS)
    series = [Bar(f"{day.day:%d/%m}", (day.questions, day.quizzes)) for day in days]
    return render(
        request,
        "desk_class.html",
        account,
        status=error.http_status if error else 200,
        classroom=classroom,
        map=_mastery(database, classroom, students, sort),
        sort=sort,
        days=[day for day in days if day.pupils],
        plot=bars(series, f"Số câu hỏi và bài làm mỗi ngày, {SHOWN_DAYS} ngày gần đây"),
        shown_days=SHOWN_DAYS,
        students=students,
        last=last_active(database, learners),
        minutes={learner: round(sum(study_minutes(of.get(learner, ())).values())) for learner in learners},
        policies=POLICIES,
        errors={error.field: str(error)} if error else {},
    )


def _mastery(database: Any, classroom: Classroom, students: Sequence[Account], sort: Order) -> HeatMap:
    close_overdue(database, [classroom.id])
    given = {skill for _, skill in quiz_items(database, classroom.id).values() if skill}
    return heat_map(students, mastery_of(database, _learners(students)), given, sort)


@router.get("/teach/classes/{class_id:int}/mastery.{kind}")
def export_mastery(services: Services, account: Teacher, class_id: int, kind: Kind) -> Response:
    """The map as a table: how surely each skill is known, in per cent; empty where nothing was tried."""
    classroom = class_for(services.database, account, class_id)
    students = members(services.database, class_id, "student")
    found = _mastery(services.database, classroom, students, "name")
    rows: list[list[Cell]] = [["Họ và tên", "Tên đăng nhập", *found.skills, "Số mục đã vững"]]
    for row in found.rows:
        known = [None if cell.p_known is None else round(100 * cell.p_known) for cell in row.cells]
        rows.append([row.student.full_name, row.student.username, *known, row.mastered])
    audit.log(services.database, account.public_id, "class.export", f"class:{class_id}", kind)
    return download(kind, f"muc-do-nam-vung-lop-{class_id}", f"Lớp {classroom.name}", rows)


@router.post("/teach/classes/{class_id:int}/policy", response_class=HTMLResponse)
def change_policy(
    request: Request,
    services: Services,
    account: Teacher,
    class_id: int,
    policy: Annotated[str, Form(max_length=20)] = "",
) -> Response:
    """Changes how the tutor helps the pupils of the class."""
    room = class_for(services.database, account, class_id)
    form = ClassForm(room.name, room.school_year, str(room.grade or ""), policy)
    try:
        changed = change_class(services.database, account.public_id, class_id, form)
    except BadField as error:
        return _class(request, services, account, room, "name", error)
    told = "Đã đổi cách gia sư giúp lớp. Có hiệu lực từ câu hỏi tiếp theo." if changed else "Không có gì thay đổi."
    return go(f"/teach/classes/{class_id}", told)


@router.post("/teach/classes/{class_id:int}/students/{public_id}/password", response_class=HTMLResponse)
def new_password(request: Request, services: Services, account: Teacher, class_id: int, public_id: str) -> HTMLResponse:
    """Gives a pupil of the class a new initial password; this answer is the only place that shows it."""
    classroom = class_for(services.database, account, class_id)
    student = next((s for s in members(services.database, class_id, "student") if s.public_id == public_id), None)
    if student is None:
        raise NotFound(f"Không có học sinh {public_id[:32]!r} trong lớp này.")
    slip = reset_password(services.database, account.public_id, student.public_id)
    return render(request, "desk_password.html", account, classroom=classroom, slip=slip)


# --- What the class asked and missed ---------------------------------------------------------------------------------


@router.get("/teach/classes/{class_id:int}/questions", response_class=HTMLResponse)
def questions(request: Request, services: Services, account: Teacher, class_id: int, days: Days = "30") -> HTMLResponse:
    """What was asked most and what was missed most. Questions show no names, and none that a single pupil asked."""
    classroom = class_for(services.database, account, class_id)
    students = members(services.database, class_id, "student")
    learners, since = _learners(students), now() - timedelta(days=int(days))
    groups = group_alike(questions_of(services.database, learners, since))
    names = [student.full_name for student in students]
    close_overdue(services.database, [class_id])
    answers, items = marked_answers(services.database, learners, since), quiz_items(services.database, class_id)
    return render(
        request,
        "desk_questions.html",
        account,
        classroom=classroom,
        days=int(days),
        choices=(7, 30, 90),
        groups=[(group, mask(group.example, class_names=names).text) for group in groups],
        # What a pupil practised alone stands in no quiz of the class.
        missed_items=most_missed((each for each in answers if each.item_id in items), "item"),
        missed_skills=most_missed(answers, "skill"),
        items=items,
        maths=to_html,
    )


# --- Answers that the book does not bear -----------------------------------------------------------------------------


@router.get("/teach/classes/{class_id:int}/answers", response_class=HTMLResponse)
def answers(
    request: Request,
    services: Services,
    account: Teacher,
    class_id: int,
    page: Annotated[int, Query(ge=1)] = 1,
    show: Literal["all", "unseen"] = "unseen",
) -> HTMLResponse:
    """Answers with struck sentences, each beside what the book has; without the pupil's name."""
    classroom = class_for(services.database, account, class_id)
    students = members(services.database, class_id, "student")
    flags = flags_of(services.database, _learners(students), kinds=ANSWER_KINDS, unseen=show == "unseen")
    pages = max(1, -(-len(flags) // ANSWERS_PER_PAGE))
    shown = flags[(min(page, pages) - 1) * ANSWERS_PER_PAGE :][:ANSWERS_PER_PAGE]
    return render(
        request,
        "desk_answers.html",
        account,
        classroom=classroom,
        flagged=_beside(services, shown),
        of={student.learner_id: student.public_id for student in students},
        show=show,
        page=min(page, pages),
        page_count=pages,
        total=len(flags),
        maths=to_html,
    )


@router.post("/teach/classes/{class_id:int}/answers/{flag_id:int}/seen")
def answer_seen(
    services: Services,
    account: Teacher,
    class_id: int,
    flag_id: int,
    show: Annotated[Literal["all", "unseen"], Form()] = "unseen",
) -> RedirectResponse:
    """Notes that the teacher has looked at a flagged answer."""
    class_for(services.database, account, class_id)
    learners = _learners(members(services.database, class_id, "student"))
    # Safety flags are not seen to from here.
    if not any(each.id == flag_id for each in flags_of(services.database, learners, kinds=ANSWER_KINDS)):
        raise NotFound(f"Không có câu trả lời nào bị báo với số {flag_id} trong lớp này.")
    mark_seen(services.database, flag_id, account.id, learners)
    audit.log(services.database, account.public_id, "answer.seen", f"flag:{flag_id}")
    return go(f"/teach/classes/{class_id}/answers?show={show}", "Đã ghi nhận là đã xem.")


def _beside(services: Any, flags: Sequence[RaisedFlag]) -> list[dict[str, Any]]:
    """Each flag with its turn, the struck sentences, and the passage to hold them against."""
    turns = turns_of(services.database, [flag.turn_id for flag in flags if flag.turn_id is not None])
    views = {view.id: view for view in views_of(services.database, list(turns.values()))}
    found: list[dict[str, Any]] = []
    for flag in flags:
        view = views.get(flag.turn_id or 0)
        if view is None:
            continue
        struck = [s for s in view.answer.get("sentences", ()) if s["status"] == "unsupported"]
        # What no passage bears cites none: then the one that the question finds first.
        nearest = [] if view.sources else services.search.search(view.question, scope=Scope(), limit=1)
        found.append({"flag": flag, "turn": view, "struck": struck, "nearest": nearest})
    return found


def _learners(students: Sequence[Account]) -> list[str]:
    return [student.learner_id for student in students if student.learner_id]
