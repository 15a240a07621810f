"""Which tests run in the modes that do not run all."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
from pathlib import Path

import pytest

from support import choice
from support.choice import Case


def _cases(module: str = "m", function: str = "f", **values: int) -> list[Case]:
    """A test for each combination, the first parameter varying fastest, as pytest orders them."""
    names = list(reversed(values))
    combinations = itertools.product(*(range(values[name]) for name in names))
    return [
        Case(
            module,
            f"{function}[{'-'.join(map(str, reversed(c)))}]",
            tuple(zip(names, map(str, c), strict=True)),
        )
        for c in combinations
    ]


def test_every_value_is_there() -> None:
    cases = _cases(strategy=2, adaptive=2, shape=12) + _cases(function="g", strategy=2, column=5)
    for one_in in range(1, 50):
        chosen = choice.choose(cases, one_in)
        assert choice.not_covered(cases, chosen) == []
        assert len(chosen) >= len(cases) / one_in


def test_no_more_than_the_values_need() -> None:
    # By position, every second one would always have the same first value.
    cases = _cases(strategy=2, shape=12)
    assert len(choice.choose(cases, 100)) == 12
    strategies = [dict(case.parameters)["strategy"] for case in choice.choose(cases, 2)]
    assert 3 <= strategies.count("0") <= 9


def test_the_share_is_filled() -> None:
    cases = _cases(a=3, b=3, c=8)
    assert len(choice.choose(cases, 3)) == 24
    assert choice.choose(cases, 1) == set(cases)
    assert choice.choose([], 3) == set()


def test_each_function_and_each_module() -> None:
    cases = [Case("m", "f"), Case("m", "g"), Case("n", "f"), *_cases("m", "h", a=9), *_cases("n", "h", a=9)]
    chosen = choice.choose(cases, 100)
    assert chosen == set(cases)


def test_values_of_axes_only() -> None:
    cases = [*_cases(strategy=2, shape=12), *_cases("n", "g", strategy=3, shape=5), Case("o", "h")]
    chosen = choice.choose(cases, 100, axes={"strategy"})
    assert choice.not_covered(cases, chosen, {"strategy"}) == []
    assert len(chosen) == 2 + 3 + 1
    assert choice.not_covered(cases, [], {"shape"})[-1] == ("o", "module", "o")


def test_order_does_not_matter_and_salt_does() -> None:
    cases = _cases(a=4, b=4, c=4)
    shuffled = random.Random(5).sample(cases, len(cases))
    assert choice.choose(cases, 6) == choice.choose(shuffled, 6)
    assert choice.choose(cases, 6, salt="x") != choice.choose(cases, 6)


def test_same_in_another_process() -> None:
    code = (
        "from support.choice import Case, choose\n"
        "cases = [Case('m', f'f[{i}]', (('a', str(i % 3)),)) for i in range(30)]\n"
        "print(sorted(case.name for case in choose(cases, 6)))"
    )
    tests = Path(__file__).parents[2] / "integration-tests"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(tests)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_what_is_missing_is_named() -> None:
    cases = _cases(strategy=2, adaptive=2)
    chosen = [case for case in cases if dict(case.parameters)["adaptive"] == "1"]
    assert choice.not_covered(cases, chosen) == [("m", "adaptive", "0")]
    assert choice.not_covered(cases, []) == [
        ("m", "adaptive", "0"),
        ("m", "adaptive", "1"),
        ("m", "function", "f"),
        ("m", "strategy", "0"),
        ("m", "strategy", "1"),
    ]


def test_share_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="one_in is 0"):
        choice.choose([], 0)


def test_values_as_text() -> None:
    assert [choice.text(v, 7) for v in ("on", 3, True, None, ("a", "b"), object())] == [
        "on",
        "3",
        "True",
        "None",
        "#7",
        "#7",
    ]


def test_parts_have_every_module_once_and_are_about_equal() -> None:
    sizes = {f"m{i}": i % 17 + 1 for i in range(60)}
    for count in (1, 2, 3, 7):
        made = choice.parts(sizes, count)
        assert sorted(m for part in made for m in part) == sorted(sizes)
        filled = [sum(sizes[m] for m in part) for part in made]
        assert max(filled) - min(filled) <= 17
    assert choice.parts(sizes, 2) == choice.parts(dict(reversed(sizes.items())), 2)
    assert choice.parts({"only": 3}, 2) == [{"only"}, set()]
    with pytest.raises(ValueError, match="count is 0"):
        choice.parts(sizes, 0)
