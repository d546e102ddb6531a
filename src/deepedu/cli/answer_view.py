"""How a turn looks in a terminal: the draft as it streams, then the checked answer with its sources."""

from collections.abc import Iterator
from contextlib import aclosing

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.text import Text

from deepedu.search.evidence import Scope
from deepedu.tutor.answer import Answer, Citation, Lesson, Status
from deepedu.tutor.turn import Completed, Draft, Found, Started, Tutor

VERDICTS = {
    Status.SUPPORTED: ("✓", "green", "sách xác nhận"),
    Status.QUOTED: ("❝", "yellow", "trích nguyên văn sách"),
    Status.UNSUPPORTED: ("✗", "red", "sách không xác nhận"),
}


async def show_turn(
    tutor: Tutor, question: str, console: Console, *, scope: Scope, conversation_id: int | None = None
) -> tuple[Completed, int]:
    """Asks and shows; returns the end of the turn and the conversation's id."""
    draft = Text("")
    completed: Completed | None = None
    conversation = conversation_id or 0
    with Live(_waiting("Đang tìm trong sách…"), console=console, transient=True, refresh_per_second=8) as live:
        async with aclosing(tutor.ask(question, scope=scope, conversation_id=conversation_id)) as events:
            async for event in events:
                match event:
                    case Started():
                        conversation = event.conversation_id
                    case Found():
                        live.update(_waiting(f"Đã tìm được {len(event.evidence)} đoạn; mô hình đang đọc…"))
                    case Draft():
                        draft.append(event.text)
                        live.update(Group(Text("Bản nháp (đang đối chiếu với sách):", style="dim"), draft))
                    case Completed():
                        completed = event
                    case _:
                        pass
    assert completed is not None
    console.print(Group(*render(completed)))
    return completed, conversation


def _waiting(message: str) -> Text:
    return Text(message, style="dim")


def render(completed: Completed) -> Iterator[RenderableType]:
    """The final view of a turn."""
    answer = completed.answer
    if completed.notice:
        yield Text(completed.notice, style="yellow")
    yield Text()
    if not answer.found:
        yield Text(answer.text, style="bold")
    for sentence in answer.sentences:
        if not answer.found and sentence.status is not Status.UNSUPPORTED:
            continue  # True, but beside the point: it would only mislead.
        sign, colour, told = VERDICTS[sentence.status]
        struck = "strike dim" if sentence.status is Status.UNSUPPORTED else ""
        marker = f" [{sentence.citation.marker}]" if sentence.citation else ""
        yield Text.assemble((f"{sign} ", colour), (sentence.text, struck), (marker, "cyan"))
        if sentence.replaces:
            yield Text(f"  {told}, thay cho câu của mô hình:", style=f"{colour} dim")
            yield Text.assemble("    ", (sentence.replaces, "strike dim"))
            yield Text(f"    {sentence.reason}", style="dim")
        else:
            yield Text(f"  {told}" + (f": {sentence.reason}" if sentence.reason else ""), style=f"{colour} dim")
    yield from _sources(answer)
    if not answer.found and answer.nearest:
        yield Text("\nBài gần nhất để đọc thêm:", style="bold")
        for lesson in answer.nearest:
            yield Text(f"  • {place(lesson)}")
    yield Text(f"\n{_figures(completed)}", style="dim")
    if completed.context is not None:
        yield Text(completed.context.line, style="dim")
    if completed.bullets_used:
        yield Text(f"Dựa vào điều đã học: {', '.join(completed.bullets_used)}", style="dim")


def _sources(answer: Answer) -> Iterator[RenderableType]:
    cited = [s.citation for s in answer.sentences if s.citation and s.status is not Status.UNSUPPORTED]
    if cited:
        yield Text("\nNguồn trong sách:", style="bold")
    seen: set[tuple[int, int, int]] = set()
    for citation in cited:
        key = (citation.passage_id, citation.start, citation.end)
        if key not in seen:
            seen.add(key)
            yield Text.assemble((f"  [{citation.marker}] ", "cyan"), place(citation))
            yield Padding(Text(f"“{citation.quote}”", style="italic"), (0, 0, 0, 6))


def place(where: Citation | Lesson) -> str:
    """Book, chapter, lesson and page in one line."""
    page = f"trang {where.page_label}" if where.has_pages else None
    return " · ".join(part for part in (where.book, where.chapter, where.lesson, page) if part)


def _figures(completed: Completed) -> str:
    parts: list[str] = []
    model = completed.finished
    if model is not None:
        parts.append(f"mô hình {model.model}")
        if model.first_token_ms is not None:
            parts.append(f"chữ đầu tiên sau {model.first_token_ms / 1000:.1f} giây")
        if model.tokens_per_s is not None:
            parts.append(f"{model.tokens_per_s:.1f} token/giây")
    return " · ".join([*parts, f"tổng cộng {completed.total_ms / 1000:.1f} giây"])
