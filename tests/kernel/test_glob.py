"""Names by GLOB: the documented reading, and equality with SQLite itself."""

from __future__ import annotations

import apsw
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stoker.errors import BadInput
from stoker.kernel.glob import check_pattern, glob_matches, is_glob, literal_prefix

SQLITE = apsw.Connection(":memory:")

# Few letters make matches likely; the rest is what patterns trip over.
CROWDED = st.text(alphabet="ab-^]*?[é𝄞", max_size=12)
ANY_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
TEXTS = CROWDED | ANY_TEXT


def sqlite_says(pattern: str, name: str) -> bool:
    return bool(SQLITE.execute("SELECT ? GLOB ?", (name, pattern)).get)


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("", "", True),
        ("", "a", False),
        ("*", "", True),
        ("?", "", False),
        ("mail", "mail", True),
        ("mail", "Mail", False),
        ("mail", "mailer", False),
        ("mail.*", "mail.", True),
        ("mail.*", "mail.send.now", True),
        ("*.now", "mail.send.now", True),
        ("m??l", "mail", True),
        ("m??l", "mal", False),
        ("?", "𝄞", True),
        ("a*b*c", "a-b-b-c", True),
        ("a*b*c", "a-c-b", False),
        ("[abc]x", "bx", True),
        ("[abc]x", "dx", False),
        ("[a-c]x", "bx", True),
        ("[c-a]x", "bx", False),
        ("[^a-c]x", "bx", False),
        ("[^a-c]x", "dx", True),
        ("[^a]", "", False),
        ("[*]", "*", True),
        ("[*]", "a", False),
        ("[?]", "?", True),
        ("[[]", "[", True),
        ("[]]", "]", True),
        ("[]a]", "a", True),
        ("[^]]", "]", False),
        ("[^]]", "a", True),
        ("[a-]", "-", True),
        ("[-a]", "-", True),
        ("[]-a]", "^", False),
        ("[a^]", "^", True),
        ("[a-c-e]", "d", False),
        ("[a-c-e]", "-", True),
        ("]", "]", True),
        ("[", "[", False),
        ("[abc", "a", False),
        ("a[]", "a", False),
        ("*[", "anything", False),
    ],
)
def test_a_pattern_reads_as_documented_and_as_sqlite_reads_it(
    pattern: str, name: str, expected: bool
) -> None:
    assert glob_matches(pattern, name) is expected
    assert sqlite_says(pattern, name) is expected


@settings(max_examples=600, deadline=None)
@given(pattern=TEXTS, name=TEXTS)
@example(pattern="*[^]-a]?", name="]a-")
def test_any_pattern_matches_exactly_what_sqlite_matches(pattern: str, name: str) -> None:
    assert glob_matches(pattern, name) is sqlite_says(pattern, name)


@settings(max_examples=600, deadline=None)
@given(pattern=st.text(alphabet="*?ab", max_size=12), name=st.text(alphabet="ab", max_size=16))
def test_stars_and_question_marks_backtrack_as_far_as_sqlite_does(pattern: str, name: str) -> None:
    assert glob_matches(pattern, name) is sqlite_says(pattern, name)


@settings(max_examples=600, deadline=None)
@given(
    inside=st.text(alphabet="abcd-^][", max_size=8), name=st.text(alphabet="abcd-^][", max_size=3)
)
def test_any_set_holds_exactly_the_characters_sqlite_finds_in_it(inside: str, name: str) -> None:
    for pattern in (f"[{inside}]", f"*[{inside}]", f"[^{inside}]*", f"[{inside}"):
        assert glob_matches(pattern, name) is sqlite_says(pattern, name)


def test_many_stars_cost_no_more_than_pattern_times_name() -> None:
    class CountedName(str):
        looks = 0

        def __getitem__(self, index: object) -> str:
            type(self).looks += 1
            return super().__getitem__(index)  # type: ignore[index]

    pattern, name = "*a" * 60 + "*b", CountedName("a" * 2000)
    assert glob_matches(pattern, name) is False
    assert CountedName.looks <= len(pattern) * len(name)


@pytest.mark.parametrize("text", ["*", "mail.*", "m?il", "[m]ail", "mail["])
def test_a_text_with_a_wildcard_is_a_glob(text: str) -> None:
    assert is_glob(text) is True


@pytest.mark.parametrize("text", ["", "mail", "mail.send", "a-b]", "^", "\\"])
def test_a_text_without_a_wildcard_is_a_plain_name(text: str) -> None:
    assert is_glob(text) is False


@settings(deadline=None)
@given(text=TEXTS)
def test_a_plain_name_matches_itself_and_a_glob_is_cut_before_its_wildcard(text: str) -> None:
    prefix = literal_prefix(text)
    assert is_glob(prefix) is False
    assert glob_matches(prefix, prefix) is True
    assert text.startswith(prefix)
    assert is_glob(text) is (prefix != text)


@pytest.mark.parametrize(
    ("pattern", "prefix"),
    [("", ""), ("*", ""), ("mail", "mail"), ("mail.*", "mail."), ("m?il*", "m"), ("ma[i]l", "ma")],
)
def test_the_literal_prefix_ends_at_the_first_wildcard(pattern: str, prefix: str) -> None:
    assert literal_prefix(pattern) == prefix


@settings(deadline=None)
@given(pattern=st.text(alphabet="ab*?", max_size=8), name=st.text(alphabet="ab", max_size=8))
def test_every_matching_name_begins_with_the_literal_prefix(pattern: str, name: str) -> None:
    assert not glob_matches(pattern, name) or name.startswith(literal_prefix(pattern))


def test_a_pattern_of_256_characters_is_accepted_and_a_longer_one_refused() -> None:
    check_pattern("*" * 256)
    with pytest.raises(BadInput, match="has 257 characters; at most 256 are allowed"):
        check_pattern("*" * 257)
