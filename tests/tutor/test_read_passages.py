"""Passages are read once as long as they are the same, wherever search finds them."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from ladder_talk import YEAR, Look

from deepedu.tutor.read_passages import ReadPassages
from deepedu.tutor.windows import Passage


def test_the_same_passages_are_read_once_whatever_their_scores(look: Look) -> None:
    kept, found = ReadPassages(100), look(YEAR)
    first = kept.read(found)
    again = kept.read([replace(one, score=one.score + 1, scores={"dense": 0.5}) for one in found])
    assert all(one is other for one, other in zip(first, again, strict=True))


def test_what_is_kept_says_the_same_as_what_is_read_anew(look: Look) -> None:
    kept, found = ReadPassages(100), look(YEAR)
    kept.read(found)
    for one, other in zip(kept.read(found), map(Passage, found), strict=True):
        assert (one.sentences, one.titles, one.lexicon) == (other.sentences, other.titles, other.lexicon)


def test_another_text_or_title_is_another_passage(look: Look) -> None:
    kept, (first, second, *_) = ReadPassages(100), look(YEAR)
    (before, _) = kept.read([first, second])
    (changed,) = kept.read([replace(first, text="Sách đã sửa.")])
    assert changed.text == "Sách đã sửa."
    (renamed,) = kept.read([replace(first, lesson="Bài khác")])
    assert renamed.evidence.lesson == "Bài khác"
    (back,) = kept.read([first])
    assert back.sentences == before.sentences
    assert kept.read([second, first])[1] is back


def test_only_the_last_ones_are_kept(look: Look) -> None:
    kept, found = ReadPassages(2), look(YEAR)[:3]
    first, second, _ = kept.read(found)
    assert kept.read(found[:1])[0] is not first
    first, second = kept.read(found[:2])
    assert kept.read(found[:1])[0] is first
    # Another one comes: the one that was left longest alone goes.
    kept.read([found[0], replace(found[1], passage_id=-1)])
    assert kept.read(found[:2])[1] is not second


def test_threads_may_share_it(look: Look) -> None:
    kept, found = ReadPassages(4), look(YEAR)
    with ThreadPoolExecutor(4) as pool:
        all_read = list(pool.map(lambda _: [p.text for p in kept.read(found)], range(40)))
    assert all(read == [one.text for one in found] for read in all_read)
