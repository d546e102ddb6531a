"""Prefix reuse: the longest prefix that is there, never another's, within the memory there is."""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the extra 'engine'")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from deepedu.engine.cache import Match, PrefixCache, Segment, block_hashes  # noqa: E402
from deepedu.engine.prefix_files import HASH_BLOCK  # noqa: E402
from deepedu.engine.prompt import Prompt  # noqa: E402
from deepedu.engine.rows import RowBlock  # noqa: E402

# One head of one number: a row is 8 bytes.
ROW_BYTES = 8


def made(rows: int) -> list[RowBlock]:
    block = RowBlock.allocate(1, max(1, rows), 1, torch.float32, torch.device("cpu"))
    block.write(torch.zeros(1, rows, 1), torch.zeros(1, rows, 1))
    return [block]


def cache_of(rows: int = 1 << 20) -> PrefixCache:
    return PrefixCache(rows * ROW_BYTES, torch.float32)


def add_shared(cache: PrefixCache, prompt: Prompt) -> Segment:
    """As a request does that has computed it and is over."""
    segment = cache.add_shared(prompt, made(prompt.shared_tokens), prompt.shared_tokens)
    cache.done_with(Match(segment))
    return segment


def add_private(cache: PrefixCache, prompt: Prompt) -> None:
    rows = len(prompt.ids) - prompt.shared_tokens
    cache.add_private(prompt, prompt.ids, made(rows), rows)


def matched(cache: PrefixCache, prompt: Prompt) -> tuple[int, int]:
    match = cache.match(prompt)
    cache.done_with(match)
    return match.shared_rows, match.private_rows


def tokens(count: int, start: int = 0) -> list[int]:
    return list(range(start, start + count))


def test_a_shared_prefix_serves_everyone_up_to_its_last_common_block() -> None:
    cache = cache_of()
    add_shared(cache, Prompt(tokens(300), 200))
    for owner in ("a", "b", None):
        assert matched(cache, Prompt(tokens(300), 200, owner)) == (200, 0)
        assert matched(cache, Prompt(tokens(400), 400, owner)) == (192, 0)
        assert matched(cache, Prompt([*tokens(100), 5, *tokens(200)], 200, owner)) == (64, 0)
        assert matched(cache, Prompt(tokens(150), 150, owner)) == (128, 0)
        assert matched(cache, Prompt(tokens(300, 1), 200, owner)) == (0, 0)


def test_what_is_not_marked_shared_is_not_found_as_shared() -> None:
    cache = cache_of()
    add_shared(cache, Prompt(tokens(300), 256))
    assert matched(cache, Prompt(tokens(300), 0, "a")) == (0, 0)
    assert matched(cache, Prompt(tokens(300), 128, "a")) == (128, 0)
    add_private(cache, Prompt(tokens(300, 1000), 0, "a"))
    assert matched(cache, Prompt(tokens(300, 1000), 300, "a")) == (0, 0)


def test_private_turns_serve_their_owner_only() -> None:
    cache = cache_of()
    add_shared(cache, Prompt(tokens(400), 128))
    add_private(cache, Prompt(tokens(400), 128, "a"))
    assert matched(cache, Prompt(tokens(500), 128, "a")) == (128, 256)
    for other in ("b", "", "A", "a ", None):
        assert matched(cache, Prompt(tokens(500), 128, other)) == (128, 0)
    # Nor where the shared part is marked elsewhere.
    assert matched(cache, Prompt(tokens(500), 64, "a")) == (64, 0)


def test_the_same_turn_after_another_lesson_is_another_turn() -> None:
    cache = cache_of()
    turn = tokens(200, 5000)
    add_private(cache, Prompt([*tokens(128), *turn], 128, "a"))
    add_shared(cache, Prompt(tokens(128), 128))
    add_shared(cache, Prompt(tokens(128, 300), 128))
    assert matched(cache, Prompt([*tokens(128), *turn], 128, "a")) == (128, 192)
    assert matched(cache, Prompt([*tokens(128, 300), *turn], 128, "a")) == (128, 0)
    assert matched(cache, Prompt(turn, 0, "a")) == (0, 0)


def test_without_an_owner_nothing_private_is_kept() -> None:
    cache = cache_of()
    add_private(cache, Prompt(tokens(400), 0, None))
    assert cache.held_bytes == 0
    assert matched(cache, Prompt(tokens(400), 0, None)) == matched(cache, Prompt(tokens(400), 0, "a")) == (0, 0)


def test_a_match_looks_at_no_other_owners_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    # Nothing that depends on another's turns is touched, so nothing about them shows in how long a match takes.
    cache = cache_of()
    add_private(cache, Prompt(tokens(400), 0, "a"))
    asked: list[bytes] = []

    class Index(dict[bytes, Any]):
        def get(self, key: bytes, default: Any = None) -> Any:
            found = super().get(key, default)
            asked.append(key)
            assert found is None
            return found

    monkeypatch.setattr(cache, "_index", Index(cache._index))
    assert cache.match(Prompt(tokens(400), 0, "b")) == Match()
    first = len(asked)
    assert cache.match(Prompt(tokens(400, 7000), 0, "b")) == Match()
    assert len(asked) == 2 * first


def test_one_token_is_left_to_compute() -> None:
    cache = cache_of()
    add_private(cache, Prompt(tokens(256), 0, "a"))
    assert matched(cache, Prompt(tokens(256), 0, "a")) == (0, 192)
    assert matched(cache, Prompt(tokens(257), 0, "a")) == (0, 256)


def test_where_the_rows_came_from() -> None:
    cache = cache_of()
    assert cache.match(Prompt(tokens(300), 200, "a")).source is None
    add_shared(cache, Prompt(tokens(300), 200))
    assert cache.match(Prompt(tokens(300), 200, "a")).source == "memory"
    assert cache.look(Prompt(tokens(300), 200)) == (200, "memory")
    assert cache.look(Prompt(tokens(300), 300)) == (192, "memory")
    assert cache.look(Prompt(tokens(300, 1), 300)) == (0, None)


def test_forgetting_drops_a_tag_from_memory() -> None:
    cache = cache_of()
    add_shared(cache, Prompt(tokens(200), 200, tag="book-1"))
    add_shared(cache, Prompt([*tokens(64), *tokens(136, 500)], 200, tag="book-2"))
    assert cache.forget("book-1") == (0, 0)
    assert matched(cache, Prompt(tokens(300), 200)) == (64, 0)
    assert matched(cache, Prompt([*tokens(64), *tokens(200, 500)], 200)) == (200, 0)


def test_forgetting_leaves_rows_to_those_who_read_them() -> None:
    cache = cache_of()
    add_shared(cache, Prompt(tokens(200), 200, tag="book-1"))
    match = cache.match(Prompt(tokens(300), 200))
    cache.forget("book-1")
    assert match.shared is not None
    assert match.shared.blocks[0].used == 200
    cache.done_with(match)
    assert (cache.held_bytes, match.shared.users) == (0, 0)


def test_memory_is_promised_and_given_back() -> None:
    cache = cache_of(100)
    assert cache.reserve(60 * ROW_BYTES)
    assert not cache.reserve(41 * ROW_BYTES)
    assert cache.reserve(40 * ROW_BYTES)
    cache.release(60 * ROW_BYTES)
    assert cache.reserved_bytes == 40 * ROW_BYTES
    assert cache.reserve(60 * ROW_BYTES)


def test_segments_that_nobody_uses_make_room_the_longest_unused_first() -> None:
    cache = cache_of(500)
    for number in range(3):
        add_shared(cache, Prompt(tokens(128, number * 1000), 128))
    assert matched(cache, Prompt(tokens(200), 128)) == (128, 0)
    assert cache.reserve(200 * ROW_BYTES)
    kept = [number for number in range(3) if matched(cache, Prompt(tokens(200, number * 1000), 128))[0]]
    assert kept == [0, 2]


def test_segments_in_use_stay() -> None:
    cache = cache_of(500)
    for number in range(2):
        add_shared(cache, Prompt(tokens(200, number * 1000), 200))
    match = cache.match(Prompt(tokens(300), 200))
    assert not cache.reserve(400 * ROW_BYTES)
    assert cache.held_bytes == 400 * ROW_BYTES
    assert cache.reserve(300 * ROW_BYTES)
    assert cache.held_bytes == 200 * ROW_BYTES
    cache.done_with(match)
    cache.release(300 * ROW_BYTES)
    assert matched(cache, Prompt(tokens(300), 200)) == (200, 0)
    assert matched(cache, Prompt(tokens(300, 1000), 200)) == (0, 0)


def test_what_comes_new_drives_nothing_out_that_is_in_use() -> None:
    cache = cache_of(500)
    for number in range(2):
        add_shared(cache, Prompt(tokens(200, number * 1000), 200))
    matches = [cache.match(Prompt(tokens(300, number * 1000), 200)) for number in range(2)]
    add_private(cache, Prompt(tokens(200, 7000), 0, "a"))
    assert cache.held_bytes == 400 * ROW_BYTES
    assert [match.shared in cache._segments for match in matches] == [True, True]


def test_what_is_kept_never_exceeds_the_limit() -> None:
    cache = cache_of(500)
    for number in range(9):
        add_private(cache, Prompt(tokens(200, number * 1000), 0, "a"))
        assert cache.held_bytes <= cache.limit_bytes
    assert matched(cache, Prompt(tokens(300, 8000), 0, "a"))[1] == 192


def common(one: list[int], other: list[int]) -> int:
    same = 0
    while same < min(len(one), len(other)) and one[same] == other[same]:
        same += 1
    return same


def prompts(max_size: int = 400) -> st.SearchStrategy[tuple[list[int], float, str | None]]:
    # Runs of equal tokens, so that prefixes of several blocks are often the same.
    runs = st.lists(st.tuples(st.integers(0, 1), st.sampled_from([1, 63, 64, 65, 128])), max_size=5)
    ids = runs.map(lambda pairs: [token for token, count in pairs for _ in range(count)][:max_size] or [0])
    return st.tuples(ids, st.sampled_from([0.0, 0.4, 1.0]), st.sampled_from(["a", "b", None]))


@settings(max_examples=150, deadline=None)
@given(earlier=st.lists(prompts(), max_size=5), asked=prompts())
def test_a_match_is_the_longest_common_prefix_in_blocks(
    earlier: list[tuple[list[int], float, str | None]], asked: tuple[list[int], float, str | None]
) -> None:
    cache = cache_of()
    known = [Prompt(ids, int(part * len(ids)), owner) for ids, part, owner in earlier]
    for prompt in known:
        if prompt.shared_tokens:
            add_shared(cache, prompt)
        add_private(cache, prompt)
    ids, part, owner = asked
    prompt = Prompt(ids, int(part * len(ids)), owner)
    head = ids[: prompt.shared_tokens]
    shared = 0
    for other in known:
        there = list(other.ids[: other.shared_tokens])
        same = common(head, there)
        shared = max(shared, same if same == len(head) == len(there) else same // HASH_BLOCK * HASH_BLOCK)
    private = 0
    for other in known if shared == len(head) and owner is not None else ():
        if other.owner == owner and list(other.ids[: other.shared_tokens]) == head:
            rest = len(other.ids) - len(head)
            same = common(list(other.ids), ids) - len(head)
            whole = min(same, len(ids) - 1 - len(head)) // HASH_BLOCK * HASH_BLOCK
            private = max(private, whole if rest >= HASH_BLOCK else 0)
    assert matched(cache, prompt) == (shared, private)
    # Nothing stays in use.
    assert all(segment.users == 0 for segment in cache._segments)


def test_hashes_name_everything_before_a_block() -> None:
    assert len(block_hashes(tokens(130), b"")) == 3
    assert block_hashes(tokens(130), b"")[:2] == block_hashes(tokens(128), b"")
    assert block_hashes([1, *tokens(129)], b"")[1] != block_hashes(tokens(130), b"")[1]
    assert block_hashes(tokens(64), b"x") != block_hashes(tokens(64), b"y")
    assert block_hashes([], b"") == []
