"""The bounded cache: what is forgotten when it is full."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.bounded import BoundedCache


def test_the_first_one_put_in_is_forgotten_first() -> None:
    cache: BoundedCache[int, int] = BoundedCache(2)
    made = [cache.get_or_make(key, lambda key=key: key * 10) for key in (1, 2, 1, 3)]
    assert made == [10, 20, 10, 30]
    assert (cache.get(1), cache.get(2), cache.get(3), len(cache)) == (None, 20, 30, 2)
    cache.clear()
    assert (cache.get(3), len(cache)) == (None, 0)


def test_by_use_the_one_asked_for_longest_ago_is_forgotten_first() -> None:
    cache: BoundedCache[int, int] = BoundedCache(2, by_use=True)
    made = [cache.get_or_make(key, lambda key=key: key * 10) for key in (1, 2, 1, 3)]
    assert made == [10, 20, 10, 30]
    assert (cache.get(1), cache.get(2), cache.get(3), len(cache)) == (10, None, 30, 2)


@given(st.lists(st.integers(0, 9)), st.integers(1, 5), st.booleans())
def test_it_never_holds_more_and_what_it_holds_is_right(
    keys: list[int], most: int, by_use: bool
) -> None:
    cache: BoundedCache[int, str] = BoundedCache(most, by_use=by_use)
    for key in keys:
        assert cache.get_or_make(key, lambda key=key: str(key)) == str(key)
        assert len(cache) <= most
        assert cache.get(key) == str(key)


def test_threads_may_share_it() -> None:
    cache: BoundedCache[int, int] = BoundedCache(3, by_use=True)
    failed: list[Exception] = []

    def use(start: int) -> None:
        try:
            for i in range(5_000):
                key = (start + i) % 7
                assert cache.get_or_make(key, lambda key=key: key + 1) == key + 1
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=use, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
