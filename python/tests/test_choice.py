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
    assert choice.not_covered(cases, choice.choose(cases)) == []


def test_no_more_than_the_values_need() -> None:
    assert len(choice.choose(_cases(strategy=2, shape=12))) == 12
    assert choice.choose([]) == set()


def test_each_function_and_each_module() -> None:
    cases = [Case("m", "f"), Case("m", "g"), Case("n", "f"), *_cases("m", "h", a=9), *_cases("n", "h", a=9)]
    chosen = choice.choose(cases)
    assert chosen == set(cases)


def test_values_of_axes_only() -> None:
    cases = [*_cases(strategy=2, shape=12), *_cases("n", "g", strategy=3, shape=5), Case("o", "h")]
    chosen = choice.choose(cases, axes={"strategy"})
    assert choice.not_covered(cases, chosen, {"strategy"}) == []
    assert len(chosen) == 2 + 3 + 1
    assert choice.not_covered(cases, [], {"shape"})[-1] == ("o", "module", "o")


def test_functions_among_the_axes() -> None:
    cases = [*_cases(strategy=2, shape=12), *_cases(function="g", shape=5)]
    assert len(choice.choose(cases, axes={"strategy", choice.FUNCTION})) == 2 + 1


def test_order_does_not_matter_and_salt_does() -> None:
    cases = _cases(a=4, b=4, c=4)
    shuffled = random.Random(5).sample(cases, len(cases))
    assert choice.choose(cases) == choice.choose(shuffled)
    assert choice.choose(cases, salt="x") != choice.choose(cases)


def test_same_in_another_process() -> None:
    code = (
        "from support.choice import Case, choose\n"
        "cases = [Case('m', f'f[{i}]', (('a', str(i % 3)),)) for i in range(30)]\n"
        "print(sorted(case.name for case in choose(cases)))"
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
        ("m", "module", "m"),
        ("m", "strategy", "0"),
        ("m", "strategy", "1"),
    ]


def test_values_as_text() -> None:
    values = ("on", 3, True, None, ("a", {"b": range(2)}), object(), [object()])
    shown = ["on", "3", "True", "None", "('a', {'b': range(0, 2)})", "#7", "#7"]
    assert [choice.text(value, 7) for value in values] == shown


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
