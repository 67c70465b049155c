import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from counts import frequencies, is_palindrome, longest, pages, words
from template import fields, render
from wrap import center, indent, wrap


def test_wrap():
    assert wrap("the quick brown fox", 9) == ["the quick", "brown fox"]
    assert wrap("the quick brown fox", 8) == ["the", "quick", "brown", "fox"]
    assert wrap("", 5) == []


def test_center():
    assert center("ab", 6) == "  ab  "
    assert center("ab", 5, "*") == "*ab**"
    assert center("abc", 2) == "abc"


def test_indent():
    assert indent(["a", "b"]) == ["    a", "    b"]
    assert indent(["a"], by=1) == [" a"]


def test_render():
    assert render("Hi {name}, {greeting|shout}", {"name": "Ada", "greeting": "hello"}) == "Hi Ada, HELLO!"
    assert render("[{missing}]", {}, default="?") == "[?]"
    assert render("{missing}.", {}) == "."
    assert render("{t|title} {t|len}", {"t": "war and peace"}) == "War And Peace 13"


def test_fields():
    assert fields("{b} {a} {b|len}") == ["b", "a"]


def test_words():
    assert words("One, two! (three) -- \"four\" ...") == ["one", "two", "three", "--", "four"]


def test_frequencies():
    assert frequencies("b a b c a b") == [("b", 3), ("a", 2), ("c", 1)]
    assert frequencies("b a b c a b", least=2) == [("b", 3), ("a", 2)]


def test_longest():
    assert longest("a bee see bees seas") == "bees"


def test_pages():
    assert pages("a b c d e", 1, 2) == [["a", "b"], ["c", "d"], ["e"]]


def test_palindrome():
    assert is_palindrome("A man, a plan, a canal: Panama")
    assert not is_palindrome("almost")


for name, check in sorted(globals().items()):
    if name.startswith("test_"):
        check()
print("ok")
