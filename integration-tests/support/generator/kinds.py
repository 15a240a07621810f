"""Types of columns, and values of each by rank: of two kinds of one family equal ranks have equal values."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

#: Columns by which groups are made and joined as they are: equal values are the same.
PLAIN_KEYS = ("k_int", "j_int", "k_decimal", "k_string", "k_date")

#: Ranks go from 0 until this.
RANKS = 1_000

# Ranks below this are the same number in all integers, and negative ones are among them.
_ZERO = 100
_EPOCH = dt.datetime(2020, 1, 1)


@dataclass(frozen=True)
class Kind:
    """A type.

    Attributes:
        name: of the type in SQL.
        family: kinds of one family can be compared, and their values of one rank are equal.
        arrow: what pyarrow writes.
        value: of a rank, ascending (but for tinyint and boolean, which have too few).
        extremes: values at the ends of the type and those that are special.
        literal: a value as SQL.
        as_text: whether Python cannot hold all its values: results are compared as text.
    """

    name: str
    family: str
    arrow: pa.DataType
    value: Callable[[int], Any]
    extremes: tuple[Any, ...]
    literal: Callable[[Any], str]
    as_text: bool = False


def _integer(name: str, bits: int, arrow: pa.DataType) -> Kind:
    least = -(2 ** (bits - 1))

    def value(rank: int) -> int:
        return (rank % (_ZERO + 128) if bits == 8 else rank) - _ZERO

    return Kind(name, "integer", arrow, value, (least, -least - 1, 0), lambda v: f"CAST('{v}' AS {name})")


def _float(name: str, arrow: pa.DataType, largest: float) -> Kind:
    specials = (float("nan"), float("inf"), float("-inf"), -0.0, 0.0, largest, -largest)
    return Kind(name, "float", arrow, lambda r: (r - _ZERO) / 4, specials, lambda v: f"CAST('{v}' AS {name})")


def _decimal(precision: int, scale: int) -> Kind:
    # From text: arithmetic rounds to 28 digits.
    digits = "9" * precision
    largest = Decimal(f"{digits[scale:]}.{digits[:scale]}")
    quantum = Decimal(1).scaleb(-scale)
    return Kind(
        f"DECIMAL({precision},{scale})",
        "decimal",
        pa.decimal128(precision, scale),
        lambda r: (Decimal(r - _ZERO) / 4).quantize(quantum),
        (largest, largest.copy_negate(), Decimal(0).quantize(quantum)),
        lambda v: f"CAST('{v}' AS DECIMAL({precision},{scale}))",
    )


def _text(rank: int) -> str:
    # Some longer than the 64 bytes at which writers cut their statistics.
    return f"{rank:05d}" + ("x" * 70 if rank % 7 == 3 else "")


def _time(name: str, unit: str, zone: dt.tzinfo | None) -> Kind:
    ends = (dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30, 23, 59, 59, 999_000))
    return Kind(
        name,
        name,
        pa.timestamp(unit, tz=zone and "UTC"),
        lambda r: (_EPOCH + dt.timedelta(hours=r)).replace(tzinfo=zone),
        tuple(e.replace(tzinfo=zone) for e in ends),
        lambda v: f"{name} '{v:%Y-%m-%d %H:%M:%S.%f}'".replace(f"'{v.year}-", f"'{v.year:04d}-"),
        as_text=True,
    )


INTEGERS = (
    _integer("TINYINT", 8, pa.int8()),
    _integer("SMALLINT", 16, pa.int16()),
    _integer("INT", 32, pa.int32()),
    _integer("BIGINT", 64, pa.int64()),
)
BIGINT = INTEGERS[3]
INT = INTEGERS[2]
_STRINGS = ("", "\U0001f600", "z" * 200)
_STRING = Kind("STRING", "string", pa.string(), _text, _STRINGS, lambda v: f"'{v}'")
_BYTES = (b"", b"\xff\xff", b"\x00")
_BINARY = Kind(
    "BINARY", "binary", pa.binary(), lambda r: _text(r).encode(), _BYTES, lambda v: f"X'{v.hex()}'"
)
_BOOLEAN = Kind(
    "BOOLEAN", "boolean", pa.bool_(), lambda r: r % 2 == 0, (True, False), lambda v: str(v).upper()
)
_DATE = Kind(
    "DATE",
    "date",
    pa.date32(),
    lambda r: _EPOCH.date() + dt.timedelta(days=r),
    (dt.date(1, 1, 2), dt.date(9999, 12, 31), dt.date(1970, 1, 1)),
    lambda v: f"DATE '{v.year:04d}-{v:%m-%d}'",
    as_text=True,
)

#: Kinds by column: each table has one kind of each row as a column of this name.
COLUMNS: dict[str, tuple[Kind, ...]] = {
    "k_int": INTEGERS,
    "j_int": INTEGERS[1:],
    "k_float": (
        _float("FLOAT", pa.float32(), 3.4028234663852886e38),
        _float("DOUBLE", pa.float64(), 1.7976931348623157e308),
    ),
    "k_decimal": (_decimal(7, 2), _decimal(18, 4), _decimal(30, 6)),
    "k_string": (_STRING,),
    "k_binary": (_BINARY,),
    "k_boolean": (_BOOLEAN,),
    "k_date": (_DATE,),
    "k_time": tuple(_time("TIMESTAMP", unit, dt.UTC) for unit in ("us", "ms")),
    "k_ntz": tuple(_time("TIMESTAMP_NTZ", unit, None) for unit in ("us", "ms")),
}
