"""What a user filter may let pass: `between`, `isin`, `bitmap`, `bloom`, `everything`, `nothing`, and
`&` of these.

Forms hold plain Python values. Whether they fit a filter is known only where they meet one: see
`UserFilter.update`.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ._errors import InvalidArgument, shown
from ._values import write_value, write_values

# Shown of a list of values or forms.
_SHOWN = 5


class Form:
    """Which values pass a filter. Forms do not change, and do not belong to a filter.

    `a & b` is what passes both.
    """

    __slots__ = ()

    def __and__(self, other: object) -> Form:
        if not isinstance(other, Form):
            return NotImplemented
        return AllOf((*_parts(self), *_parts(other)))

    def _write(self, to: Any) -> None:
        """Puts the form into a `UserForm` message (proto/dynamic_filter_commands.proto)."""
        raise InvalidArgument(
            f"update: expected what between, isin, bitmap, bloom, everything or nothing return, "
            f"got {type(self).__name__}"
        )


@dataclass(frozen=True)
class Constant(Form):
    """The same for every value: `everything` or `nothing`, which is the name."""

    name: str

    def _write(self, to: Any) -> None:
        getattr(to, self.name).SetInParent()

    def __repr__(self) -> str:
        return f"{self.name}()"


@dataclass(frozen=True)
class Between(Form):
    lower: Any
    upper: Any

    def _write(self, to: Any) -> None:
        to.between.SetInParent()
        if self.lower is not None:
            write_value(to.between.lower, self.lower)
        if self.upper is not None:
            write_value(to.between.upper, self.upper)

    def __repr__(self) -> str:
        return f"between({shown(repr(self.lower))}, {shown(repr(self.upper))})"


@dataclass(frozen=True)
class IsIn(Form):
    values: tuple[Any, ...]

    def _write(self, to: Any) -> None:
        write_values(to.values, self.values)

    def __repr__(self) -> str:
        return f"isin({_shown(self.values)})"


@dataclass(frozen=True)
class Bitmap(Form):
    data: bytes
    bits: int

    def _write(self, to: Any) -> None:
        to.bitmap.data, to.bitmap.bits = self.data, self.bits

    def __repr__(self) -> str:
        return f"bitmap({len(self.data)} bytes)"


@dataclass(frozen=True)
class Bloom(Form):
    values: tuple[Any, ...]
    fpp: float

    def _write(self, to: Any) -> None:
        write_values(to.bloom.values, self.values)
        to.bloom.fpp = self.fpp

    def __repr__(self) -> str:
        return f"bloom({_shown(self.values)}, fpp={self.fpp})"


@dataclass(frozen=True)
class AllOf(Form):
    parts: tuple[Form, ...]

    def _write(self, to: Any) -> None:
        to.all_of.SetInParent()
        for part in self.parts:
            part._write(to.all_of.parts.add())

    def __repr__(self) -> str:
        first = " & ".join(repr(p) for p in self.parts[:_SHOWN])
        more = len(self.parts) - _SHOWN
        return f"{first} & ... {more} more" if more > 0 else first


def everything() -> Form:
    """Every value passes, and NULL."""
    return Constant("everything")


def nothing() -> Form:
    """No value passes, nor NULL."""
    return Constant("nothing")


def between(lower: Any = None, upper: Any = None) -> Form:
    """Values from `lower` to `upper` pass, both included, by Spark's order of the type. NULL does not.

    Args:
        lower: None for no least value.
        upper: None for no greatest value.

    Raises:
        ValueError: both are None; `everything()` says that.
        InvalidArgument: an end is pandas' NA or NaT (also a TypeError).
    """
    lower, upper = (_end(value) for value in (lower, upper))
    if lower is None and upper is None:
        raise ValueError("between: give at least one end, or use everything()")
    return Between(lower, upper)


def isin(values: Iterable[Any]) -> Form:
    """These values pass. NULL does if None, or pandas' NA or NaT, is among them.

    Whole floats are integers to a filter of an integer type; NaN is none: leave it out (`dropna()`), or put
    None in its place.

    Args:
        values: a list, set, numpy array, pandas Series, pyarrow array or any other iterable. For many
            integers `bitmap` is smaller.

    Raises:
        InvalidArgument: no iterable, a string, of which the characters would be meant, or a table with
            several columns (also a TypeError).
    """
    return IsIn(_plain("isin", values))


def bitmap(bits: Any, size: int | None = None) -> Form:
    """The integers in a roaring bitmap pass; of a date column the days since 1970-01-01. NULL does not.

    Args:
        bits: a `pyroaring` BitMap, FrozenBitMap, BitMap64 or FrozenBitMap64; or bytes in the portable
            serialization of a 32-bit or 64-bit roaring bitmap, as these and the JVM's RoaringBitmap write it;
            or an iterable of integers that are not negative, which needs `pyroaring`.
        size: 32 or 64, where bytes do not show which of the two they are; None to look.

    Returns:
        The form. Whether bytes are a bitmap is seen by `UserFilter.update`.

    Raises:
        InvalidArgument: none of these (also a TypeError).
        ValueError: a negative integer (no roaring bitmap has them), one of more than 64 bits, or a `size`
            that is none of 32, 64 and None.
        ImportError: integers are given and `pyroaring` is missing.
    """
    if size not in (None, 32, 64):
        raise ValueError(f"bitmap: size is {shown(size)}; valid are 32, 64 and None")
    if isinstance(bits, (bytes, bytearray, memoryview)):
        return Bitmap(bytes(bits), size or 0)
    kind = type(bits)
    if kind.__module__.split(".")[0] == "pyroaring":
        return Bitmap(bytes(bits.serialize()), 64 if kind.__name__.endswith("64") else 32)
    return Bitmap(bytes(_roaring(bits).serialize()), 64)


def _roaring(values: Any) -> Any:
    numbers = _plain("bitmap", values)
    wrong = next((v for v in numbers if not _is_integer(v)), None)
    if wrong is not None or None in numbers:
        raise InvalidArgument(
            f"bitmap: {shown(wrong)} is no integer; give a pyroaring bitmap, its bytes, or integers from 0"
        )
    outside = next((v for v in numbers if not 0 <= v < 1 << 64), None)
    if outside is not None:
        raise ValueError(
            f"bitmap: {shown(outside)} is not in a roaring bitmap, which has integers from 0 to 2**64 - 1"
        )
    try:
        from pyroaring import BitMap64
    except ImportError as error:
        raise ImportError(
            "bitmap: plain integers need the pyroaring package, which is not installed: "
            "pip install 'spark-dynamic-filters[filters]', or pip install pyroaring; isin takes integers "
            "without it"
        ) from error
    return BitMap64(numbers)


def bloom(values: Iterable[Any], fpp: float = 0.01) -> Form:
    """These values pass, and a few others: a Bloom filter, small for many values of any type.

    The server builds it, so the values travel there once. NULL passes if None is among them.

    Args:
        values: as for `isin`.
        fpp: share of the other values that pass, aimed at; between 0 and 1.

    Raises:
        InvalidArgument: as `isin`.
        ValueError: `fpp` is not between 0 and 1.
    """
    # numpy's numbers are registered as such.
    if not isinstance(fpp, numbers.Real) or not 0 < float(fpp) < 1:
        raise ValueError(f"bloom: fpp is {shown(fpp)}; valid are numbers between 0 and 1, both exclusive")
    return Bloom(_plain("bloom", values), float(fpp))


def _parts(form: Form) -> tuple[Form, ...]:
    return form.parts if isinstance(form, AllOf) else (form,)


def _end(value: Any) -> Any:
    plain = _value(value)
    if plain is None and value is not None:
        raise InvalidArgument(f"between: an end cannot be {shown(value)}; None leaves an end open")
    return plain


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _plain(what: str, values: Any) -> tuple[Any, ...]:
    """The values as Python's own types."""
    if hasattr(values, "columns"):
        of_spark = hasattr(values, "sparkSession")
        raise InvalidArgument(
            f"{what}: expected values, got {type(values).__name__}: give "
            + (
                "those of one of its columns, [row[0] for row in ...collect()]"
                if of_spark
                else "one of its columns"
            )
        )
    if isinstance(values, (str, bytes, bytearray)) or not isinstance(values, Iterable):
        raise InvalidArgument(
            f"{what}: expected several values, as a list or set, got {type(values).__name__}"
        )
    if type(values).__module__ == "numpy":
        values = _in_microseconds(values)
    for conversion in ("to_pylist", "tolist"):  # pyarrow; numpy and pandas
        convert = getattr(values, conversion, None)
        if callable(convert):
            try:
                plain = convert()
            # pyarrow's, of times that Python has not, and of zones that nobody has.
            except (OverflowError, ValueError, KeyError) as error:
                raise InvalidArgument(f"{what}: a value is none of Python's: {error}") from error
            if not isinstance(plain, list):
                raise InvalidArgument(f"{what}: expected several values, got an array without a dimension")
            if _is_of_times(values):
                _refuse_bare(what, plain, values.dtype)
            # The missing value among strings of pandas 3 is NaN.
            if str(getattr(values, "dtype", "")) == "str":
                plain = [None if isinstance(v, float) else v for v in plain]
            return tuple(_value(v) for v in plain)
    return tuple(_value(v) for v in values)


def _value(value: Any) -> Any:
    module = type(value).__module__
    if module == "numpy" and hasattr(value, "item"):
        if getattr(value, "size", 1) != 1:
            raise InvalidArgument(f"a value cannot be an array of {value.size}: {shown(value)}")
        plain = _in_microseconds(value).item()  # a numpy number among Python's own
        if _is_of_times(value):
            _refuse_bare("a value", [plain], value.dtype)
        return plain
    if module.startswith("pandas.") and type(value).__name__ in ("NAType", "NaTType"):
        return None
    return value


def _is_of_times(values: Any) -> bool:
    return getattr(getattr(values, "dtype", None), "kind", "") in ("m", "M")


def _refuse_bare(what: str, plain: list[Any], kind: Any) -> None:
    """Times that Python's types do not have, as of the year 12000, numpy makes integers."""
    bare = next((v for v in plain if _is_integer(v)), None)
    if bare is not None:
        raise InvalidArgument(
            f"{what}: {shown(bare)} of numpy's {kind} is no time that Python has: years are 1 to 9999, "
            "units days to microseconds"
        )


def _in_microseconds(values: Any) -> Any:
    """numpy's times with the digits that Spark and Python have. Of nanoseconds, pandas' unit, numpy makes
    integers."""
    kind = getattr(values, "dtype", None)
    if kind is not None and kind.kind in "mM" and kind.str[3:] in ("[ns]", "[ps]", "[fs]", "[as]"):
        return values.astype(f"{kind.str[1:3]}[us]")
    return values


def _shown(values: tuple[Any, ...]) -> str:
    first = ", ".join(shown(repr(v)) for v in values[:_SHOWN])
    more = len(values) - _SHOWN
    return f"[{first}, ... {more} more]" if more > 0 else f"[{first}]"
