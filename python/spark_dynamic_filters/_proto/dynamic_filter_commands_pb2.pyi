from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class UserFilterCommand(_message.Message):
    __slots__ = ("version", "create", "update", "close")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CREATE_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    version: int
    create: CreateUserFilter
    update: UpdateUserFilter
    close: CloseUserFilter
    def __init__(self, version: _Optional[int] = ..., create: _Optional[_Union[CreateUserFilter, _Mapping]] = ..., update: _Optional[_Union[UpdateUserFilter, _Mapping]] = ..., close: _Optional[_Union[CloseUserFilter, _Mapping]] = ...) -> None: ...

class CreateUserFilter(_message.Message):
    __slots__ = ("name", "data_type", "token")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DATA_TYPE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    name: str
    data_type: str
    token: str
    def __init__(self, name: _Optional[str] = ..., data_type: _Optional[str] = ..., token: _Optional[str] = ...) -> None: ...

class UpdateUserFilter(_message.Message):
    __slots__ = ("name", "token", "form")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    name: str
    token: str
    form: UserForm
    def __init__(self, name: _Optional[str] = ..., token: _Optional[str] = ..., form: _Optional[_Union[UserForm, _Mapping]] = ...) -> None: ...

class CloseUserFilter(_message.Message):
    __slots__ = ("name", "token")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    name: str
    token: str
    def __init__(self, name: _Optional[str] = ..., token: _Optional[str] = ...) -> None: ...

class UserForm(_message.Message):
    __slots__ = ("everything", "nothing", "between", "values", "bitmap", "bloom", "all_of")
    EVERYTHING_FIELD_NUMBER: _ClassVar[int]
    NOTHING_FIELD_NUMBER: _ClassVar[int]
    BETWEEN_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    BITMAP_FIELD_NUMBER: _ClassVar[int]
    BLOOM_FIELD_NUMBER: _ClassVar[int]
    ALL_OF_FIELD_NUMBER: _ClassVar[int]
    everything: UserEverything
    nothing: UserNothing
    between: UserBetween
    values: UserValues
    bitmap: UserBitmap
    bloom: UserBloom
    all_of: UserAnd
    def __init__(self, everything: _Optional[_Union[UserEverything, _Mapping]] = ..., nothing: _Optional[_Union[UserNothing, _Mapping]] = ..., between: _Optional[_Union[UserBetween, _Mapping]] = ..., values: _Optional[_Union[UserValues, _Mapping]] = ..., bitmap: _Optional[_Union[UserBitmap, _Mapping]] = ..., bloom: _Optional[_Union[UserBloom, _Mapping]] = ..., all_of: _Optional[_Union[UserAnd, _Mapping]] = ...) -> None: ...

class UserEverything(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UserNothing(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UserBetween(_message.Message):
    __slots__ = ("lower", "upper")
    LOWER_FIELD_NUMBER: _ClassVar[int]
    UPPER_FIELD_NUMBER: _ClassVar[int]
    lower: UserValue
    upper: UserValue
    def __init__(self, lower: _Optional[_Union[UserValue, _Mapping]] = ..., upper: _Optional[_Union[UserValue, _Mapping]] = ...) -> None: ...

class UserValues(_message.Message):
    __slots__ = ("nulls", "integers", "others")
    NULLS_FIELD_NUMBER: _ClassVar[int]
    INTEGERS_FIELD_NUMBER: _ClassVar[int]
    OTHERS_FIELD_NUMBER: _ClassVar[int]
    nulls: bool
    integers: _containers.RepeatedScalarFieldContainer[int]
    others: _containers.RepeatedCompositeFieldContainer[UserValue]
    def __init__(self, nulls: bool = ..., integers: _Optional[_Iterable[int]] = ..., others: _Optional[_Iterable[_Union[UserValue, _Mapping]]] = ...) -> None: ...

class UserBitmap(_message.Message):
    __slots__ = ("data", "bits")
    DATA_FIELD_NUMBER: _ClassVar[int]
    BITS_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    bits: int
    def __init__(self, data: _Optional[bytes] = ..., bits: _Optional[int] = ...) -> None: ...

class UserBloom(_message.Message):
    __slots__ = ("values", "fpp")
    VALUES_FIELD_NUMBER: _ClassVar[int]
    FPP_FIELD_NUMBER: _ClassVar[int]
    values: UserValues
    fpp: float
    def __init__(self, values: _Optional[_Union[UserValues, _Mapping]] = ..., fpp: _Optional[float] = ...) -> None: ...

class UserAnd(_message.Message):
    __slots__ = ("parts",)
    PARTS_FIELD_NUMBER: _ClassVar[int]
    parts: _containers.RepeatedCompositeFieldContainer[UserForm]
    def __init__(self, parts: _Optional[_Iterable[_Union[UserForm, _Mapping]]] = ...) -> None: ...

class UserValue(_message.Message):
    __slots__ = ("flag", "integer", "number", "decimal", "text", "data", "date_days", "instant_micros", "local", "duration_micros", "time_nanos")
    FLAG_FIELD_NUMBER: _ClassVar[int]
    INTEGER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    DECIMAL_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    DATE_DAYS_FIELD_NUMBER: _ClassVar[int]
    INSTANT_MICROS_FIELD_NUMBER: _ClassVar[int]
    LOCAL_FIELD_NUMBER: _ClassVar[int]
    DURATION_MICROS_FIELD_NUMBER: _ClassVar[int]
    TIME_NANOS_FIELD_NUMBER: _ClassVar[int]
    flag: bool
    integer: int
    number: float
    decimal: str
    text: str
    data: bytes
    date_days: int
    instant_micros: int
    local: UserLocalTime
    duration_micros: int
    time_nanos: int
    def __init__(self, flag: bool = ..., integer: _Optional[int] = ..., number: _Optional[float] = ..., decimal: _Optional[str] = ..., text: _Optional[str] = ..., data: _Optional[bytes] = ..., date_days: _Optional[int] = ..., instant_micros: _Optional[int] = ..., local: _Optional[_Union[UserLocalTime, _Mapping]] = ..., duration_micros: _Optional[int] = ..., time_nanos: _Optional[int] = ...) -> None: ...

class UserLocalTime(_message.Message):
    __slots__ = ("wall_micros", "instant_micros")
    WALL_MICROS_FIELD_NUMBER: _ClassVar[int]
    INSTANT_MICROS_FIELD_NUMBER: _ClassVar[int]
    wall_micros: int
    instant_micros: int
    def __init__(self, wall_micros: _Optional[int] = ..., instant_micros: _Optional[int] = ...) -> None: ...

class RunQuery(_message.Message):
    __slots__ = ("relation",)
    RELATION_FIELD_NUMBER: _ClassVar[int]
    relation: bytes
    def __init__(self, relation: _Optional[bytes] = ...) -> None: ...
