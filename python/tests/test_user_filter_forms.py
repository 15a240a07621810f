"""Forms and commands of user filters, without a session."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import time
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import spark_dynamic_filters as sdf
from spark_dynamic_filters._errors import translated
from spark_dynamic_filters._proto import dynamic_filter_commands_pb2 as pb


def _form(form: sdf.Form) -> Any:
    encoded = pb.UserForm()
    form._write(encoded)
    return pb.UserForm.FromString(encoded.SerializeToString())


def _value(value: Any) -> Any:
    return _form(sdf.between(value)).between.lower


def test_each_form_is_told_from_the_others() -> None:
    forms = {
        "everything": sdf.everything(),
        "nothing": sdf.nothing(),
        "between": sdf.between(1, 2),
        "values": sdf.isin([1]),
        "bitmap": sdf.bitmap(b"12345678"),
        "bloom": sdf.bloom([1]),
        "all_of": sdf.isin([1]) & sdf.between(1, 2),
    }
    assert {name: _form(form).WhichOneof("form") for name, form in forms.items()} == {n: n for n in forms}
    # Also without values.
    assert _form(sdf.isin([])).WhichOneof("form") == "values"


@pytest.mark.parametrize(
    "values",
    [
        [3, 1, 2],
        {1, 2, 3},
        range(1, 4),
        (v for v in (1, 2, 3)),
        np.array([1, 2, 3], np.int32),
        [np.int64(1), np.int16(2), 3],
        pd.Series([1, 2, 3]),
        pa.array([1, 2, 3]),
    ],
)
def test_integers_are_packed_whatever_holds_them(values: Any) -> None:
    encoded = _form(sdf.isin(values)).values
    assert sorted(encoded.integers) == [1, 2, 3]
    assert not encoded.others
    assert not encoded.nulls


@pytest.mark.parametrize(
    "values",
    [
        pd.Series([1, 2, pd.NA], dtype="Int64"),
        pd.array([1, None, 2], dtype="Int32"),
        [1, 2, pd.NA],
        [pd.NaT, 1, 2],
        pa.array([1, 2, None]),
    ],
)
def test_missing_values_are_null(values: Any) -> None:
    encoded = _form(sdf.isin(values)).values
    assert sorted(encoded.integers) == [1, 2]
    assert encoded.nulls


def test_none_is_null() -> None:
    encoded = _form(sdf.isin([1, None])).values
    assert encoded.nulls
    assert list(encoded.integers) == [1]


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (True, "flag", True),
        (-5, "integer", -5),
        (1 << 63, "decimal", str(1 << 63)),
        (1.5, "number", 1.5),
        (np.float32(0.5), "number", 0.5),
        (np.datetime64("1970-01-02"), "date_days", 1),
        (np.timedelta64(5_000, "ns"), "duration_micros", 5),
        (Decimal("-1.50"), "decimal", "-1.50"),
        ("ä", "text", "ä"),
        (b"\0\xff", "data", b"\0\xff"),
        (dt.date(1969, 12, 31), "date_days", -1),
        (dt.datetime(1970, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))), "instant_micros", 0),
        (dt.timedelta(days=-1), "duration_micros", -86_400_000_000),
        (dt.time(0, 0, 1, 5), "time_nanos", 1_000_005_000),
    ],
)
def test_values(value: Any, kind: str, expected: Any) -> None:
    encoded = _value(value)
    assert encoded.WhichOneof("value") == kind
    assert getattr(encoded, kind) == expected


def test_times_without_zone_are_told_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Etc/GMT-2")
    time.tzset()
    try:
        encoded = _value(dt.datetime(1970, 1, 1, 2, 0, 0, 7))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert encoded.local.wall_micros == 7_200_000_007
    assert encoded.local.instant_micros == 7


def test_times_that_cannot_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    zoned = dt.time(1, 2, tzinfo=dt.UTC)
    with pytest.raises(sdf.InvalidArgument, match=r"datetime\.time\(1, 2, .* has a time zone"):
        _value(zoned)

    def outside(_: time.struct_time) -> float:
        raise OverflowError("mktime argument out of range")

    monkeypatch.setattr(time, "mktime", outside)
    with pytest.raises(sdf.InvalidArgument, match=r"datetime\.datetime\(1, 1, 1, 0, 0\) cannot be told"):
        _value(dt.datetime(1, 1, 1))


def test_numpys_nanoseconds_are_times() -> None:
    times = pd.Series([pd.Timestamp("2020-01-02 03:04:05.000006"), pd.NaT]).to_numpy()
    assert times.dtype.name.startswith("datetime64")
    for values in (times.astype("datetime64[ns]"), list(times.astype("datetime64[ns]"))):
        encoded = _form(sdf.isin(values)).values
        assert encoded.nulls
        assert [v.WhichOneof("value") for v in encoded.others] == ["local"]
        assert encoded.others[0].local.wall_micros == 1_577_934_245_000_006


def test_what_no_form_takes() -> None:
    with pytest.raises(ValueError, match="everything"):
        sdf.between()
    for wrong in ("abc", b"abc", 5):
        with pytest.raises(TypeError, match="isin"):
            sdf.isin(wrong)  # type: ignore[arg-type]
    for fpp in (0, 1, -0.1, float("nan")):
        with pytest.raises(ValueError, match="fpp"):
            sdf.bloom([1], fpp=fpp)
    with pytest.raises(ValueError, match="size"):
        sdf.bitmap(b"", size=16)
    with pytest.raises(TypeError, match="dict"):
        _form(sdf.isin([{}]))
    with pytest.raises(TypeError):
        sdf.isin([1]) & 5  # type: ignore[operator]


def test_bitmaps() -> None:
    pyroaring = pytest.importorskip("pyroaring")
    small, large = pyroaring.BitMap([1, 5]), pyroaring.BitMap64([1, 1 << 40])
    for bitmap, bits in (
        (small, 32),
        (pyroaring.FrozenBitMap(small), 32),
        (large, 64),
        (pyroaring.FrozenBitMap64(large), 64),
    ):
        encoded = _form(sdf.bitmap(bitmap)).bitmap
        assert (encoded.data, encoded.bits) == (bitmap.serialize(), bits)
    assert _form(sdf.bitmap([1, 1 << 40])).bitmap.data == large.serialize()
    assert _form(sdf.bitmap(np.array([1, 5]))).bitmap.bits == 64
    for wrong in (-1, 1 << 64):
        with pytest.raises(ValueError, match=str(wrong)):
            sdf.bitmap([1, wrong])
    for wrong in ("x", None, 1.5, True):
        with pytest.raises(TypeError, match="integer"):
            sdf.bitmap([1, wrong])


def test_conjunctions_are_flat() -> None:
    form = sdf.isin([1])
    for i in range(500):
        form &= sdf.between(i)
    assert len(_form(form).all_of.parts) == 501


@pytest.mark.parametrize("unit", ["D", "s", "us", "25ns"])
def test_times_that_python_has_not(unit: str) -> None:
    times = np.array(["2020-01-01", "12000-01-01"], "M8[D]").astype(f"M8[{unit}]")
    if unit == "25ns":
        times = np.array(["2020-01-01"], f"M8[{unit}]")
    for make in (lambda: sdf.isin(times), lambda: sdf.bloom(times), lambda: sdf.between(times[-1])):
        with pytest.raises(sdf.InvalidArgument, match="no time that Python has"):
            make()


def test_times_of_pyarrow_that_python_has_not() -> None:
    with pytest.raises(sdf.InvalidArgument, match="isin: a value is none of Python's"):
        sdf.isin(pa.array([10**15], pa.timestamp("s")))


def test_values_of_pandas_and_pyarrow_that_spark_has_not() -> None:
    late = pd.Timestamp(np.datetime64("12000-01-01", "s"))
    for value in (late, pd.Timedelta(np.timedelta64(10**15, "s"))):
        with pytest.raises(sdf.InvalidArgument):
            _value(value)
    with pytest.raises(sdf.InvalidArgument, match="Mars"):
        sdf.isin(pa.array([1], pa.timestamp("us", "Mars/Olympus")))
    with pytest.raises(sdf.InvalidArgument, match="an array of 2"):
        sdf.between(np.array([1, 2]))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("\ud800", "half a character"),
        (dt.timedelta.max, "too long for a duration"),
        (1 << 20_000, "integers of 20001 bits"),
    ],
    ids=["text", "duration", "integer"],
)
def test_values_that_cannot_be_sent(value: Any, text: str) -> None:
    for form in (sdf.isin([value]), sdf.between(value), sdf.bloom([1, value])):
        with pytest.raises(sdf.InvalidArgument, match=text):
            _form(form)


def test_a_zone_without_an_offset_is_none() -> None:
    class Nowhere(dt.tzinfo):
        def utcoffset(self, _: dt.datetime | None) -> None:
            return None

    when = dt.datetime(2020, 1, 1, 12)
    assert _value(when.replace(tzinfo=Nowhere())) == _value(when)


def test_rates_that_are_too_small_are_refused() -> None:
    with pytest.raises(ValueError, match="fpp"):
        sdf.bloom([1], fpp=Fraction(1, 10**400))


def test_missing_times_of_numpy() -> None:
    assert sdf.isin(np.array(["2020-01-01", "NaT"], "M8[D]")) == sdf.isin([dt.date(2020, 1, 1), None])


def test_rates_of_numpy() -> None:
    assert _form(sdf.bloom([1], fpp=np.float32(0.5))).bloom.fpp == 0.5


def test_text_of_forms_is_short() -> None:
    long = "x" * 10_000
    many = sdf.isin([long] * 10)
    for _ in range(100):
        many &= sdf.between(long, long)
    assert len(repr(many)) < 1_000
    assert repr(many).endswith(" & ... 96 more")


def test_text_of_forms() -> None:
    assert repr(sdf.isin(range(10)) & sdf.between(1, None)) == (
        "isin([0, 1, 2, 3, 4, ... 5 more]) & between(1, None)"
    )


def test_errors_of_the_driver_become_the_packages_own() -> None:
    kinds = {
        "NOT_FOUND": sdf.FilterNotFound,
        "CLOSED": sdf.FilterClosed,
        "DUPLICATE": sdf.DuplicateFilter,
        "TYPE_MISMATCH": sdf.FilterTypeMismatch,
        "INVALID_FORM": sdf.InvalidFilterForm,
        "SOMETHING_NEW": sdf.DynamicFiltersError,
    }
    for code, kind in kinds.items():
        error = translated(RuntimeError(f"java: [DYNAMIC_FILTER_{code}] filter 'f': why\n  at x"))
        assert type(error) is kind
        assert str(error) == "filter 'f': why"
    # As Spark's own errors end.
    error = translated(RuntimeError("[DYNAMIC_FILTER_CLOSED] filter 'f': why. SQLSTATE: 42704"))
    assert str(error) == "filter 'f': why"
    assert translated(RuntimeError("something else")) is None


NO_PROTOBUF = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "google":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
import spark_dynamic_filters as sdf
from spark_dynamic_filters import _commands
sdf.isin([1])
try:
    _commands._command()
except ImportError as error:
    print(error)
"""


def test_without_protobuf_the_error_says_what_to_install() -> None:
    done = subprocess.run(
        [sys.executable, "-c", NO_PROTOBUF], capture_output=True, text=True, timeout=60, check=False
    )
    assert "pip install 'protobuf" in done.stdout, done.stderr
