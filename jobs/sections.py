# SPDX-License-Identifier: Apache-2.0
"""What the parts of a job file are made of: `Section` and the types of its fields.

A section is a pydantic model whose docstring and field descriptions are the job
file's documentation (describe.py, schema.py): every field says what it is, in which
unit, and carries an example where it has no default. Field types parse the notation
of the file into plain numbers; the Python name carries the unit, the alias is the key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeVar, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)
from pydantic.fields import FieldInfo

from ldapslam.jobs import units
from ldapslam.jobs.fault import expected


class Section(BaseModel):
    """One mapping of the job file: unknown keys are faults, nothing is coerced."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, defer_build=True
    )

    #: Exactly one of these keys must be given, if any are listed.
    exactly_one: ClassVar[tuple[str, ...]] = ()
    #: At least one of these keys must be given, if any are listed.
    at_least_one: ClassVar[tuple[str, ...]] = ()
    #: What the keys of `exactly_one` are called in messages.
    choice_noun: ClassVar[str] = "key"

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> Any:
        schema = handler(core_schema)
        body = handler.resolve_ref_schema(schema)
        body["description"] = cls.summary()
        for key, info in fields_of(cls):
            if (default := default_in_file(info)) is not None:
                body["properties"][key]["default"] = default
        if cls.exactly_one:
            body["oneOf"] = [{"required": [key]} for key in cls.exactly_one]
        if cls.at_least_one:
            body["anyOf"] = [{"required": [key]} for key in cls.at_least_one]
        return schema

    @classmethod
    def summary(cls) -> str:
        """What the section is, as one paragraph."""
        return " ".join((cls.__doc__ or "").split())


_S = TypeVar("_S", bound=Section)


def one_or_more(value: Any) -> Any:
    """A text alone as a list of one: for BeforeValidator."""
    return [value] if isinstance(value, str) else value


def checked(check: Callable[[_S], None]) -> Any:
    """Decorator of a section's method that raises a Fault when its fields, each right
    by itself, do not go together."""

    def validate(self: _S) -> _S:
        check(self)
        return self

    return model_validator(mode="after")(validate)


@dataclass(frozen=True)
class Kind:
    """Annotation of a field type: what `job describe` and the schema make of it."""

    #: What a reader of the job file calls the type.
    name: str
    #: From the model's value to the file's notation; None where they are the same.
    notation: Callable[[Any], str | int] | None = None


def fields_of(section: type[Section]) -> Iterator[tuple[str, FieldInfo]]:
    """Key in the job file and definition of each field, in the file's order."""
    for name, info in section.model_fields.items():
        yield info.alias or name, info


def field_of(section: type[Section], key: str) -> FieldInfo | None:
    return dict(fields_of(section)).get(key)


def kind_of(info: FieldInfo) -> Kind | None:
    kinds = [part for part in info.metadata if isinstance(part, Kind)]
    return kinds[-1] if kinds else None


def default_in_file(info: FieldInfo) -> Any:
    """The default as the file would have it; None where leaving out says more."""
    if info.is_required():
        return None
    value = info.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, Section) or value in ("", [], {}):
        return None
    kind = kind_of(info)
    if value is None or kind is None or kind.notation is None:
        return value
    return kind.notation(value)


def sections_in(annotation: Any) -> list[tuple[type[Section], bool]]:
    """The sections that a field holds, directly or in a list, mapping or optional, and
    whether in a list."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [(annotation, False)]
    in_list = get_origin(annotation) is list
    found = [
        (section, in_list or deeper)
        for inner in get_args(annotation)
        for section, deeper in sections_in(inner)
    ]
    return list(dict.fromkeys(found))


def section_in(annotation: Any, of_item: bool | None = None) -> type[Section] | None:
    """The first section that a field holds; `of_item` tells the items of a list from
    what stands alone."""
    for section, in_list in sections_in(annotation):
        if of_item in (None, in_list):
            return section
    return None


def _above_zero(duration_ns: int) -> int:
    if duration_ns == 0:
        raise expected("a duration above zero", units.format_duration(duration_ns))
    return duration_ns


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    hint = None
    if isinstance(value, str):
        yes, no = ("yes", "on", "y", "true"), ("no", "off", "n", "false")
        word = value.lower()
        if word in yes or word in no:
            hint = f"write {'true' if word in yes else 'false'}, without quotes"
    raise expected("true or false", value, hint)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    hint = None
    if value is not None and not isinstance(value, (dict, list)):
        shown = str(value).lower() if isinstance(value, bool) else value
        hint = f'put it in quotes: "{shown}"'
    raise expected("text", value, hint)


#: Nanoseconds; zero is allowed.
Duration = Annotated[
    int,
    BeforeValidator(units.parse_duration),
    PlainSerializer(units.format_duration, return_type=str),
    WithJsonSchema({"type": "string", "pattern": units.DURATION_PATTERN}),
    Kind("duration", units.format_duration),
]
#: Nanoseconds; above zero.
PositiveDuration = Annotated[Duration, AfterValidator(_above_zero)]

RateField = Annotated[
    units.Rate,
    PlainValidator(units.parse_rate),
    PlainSerializer(units.format_rate, return_type=str),
    WithJsonSchema({"type": "string", "pattern": units.RATE_PATTERN}),
    Kind("rate", units.format_rate),
]
#: Between 0 and 1.
Share = Annotated[
    float,
    BeforeValidator(units.parse_share),
    PlainSerializer(units.format_share, return_type=str),
    WithJsonSchema({"type": "string", "pattern": units.SHARE_PATTERN}),
    Kind("percentage", units.format_share),
]
Flag = Annotated[
    bool, PlainValidator(_flag), WithJsonSchema({"type": "boolean"}), Kind("true|false")
]
Text = Annotated[str, BeforeValidator(_text), Kind("text")]
#: Beginning of the tags of a union's members; pydantic has them in its paths.
UNION_TAG = "[tag:"
#: A file that the job needs, by its path relative to the job file; agents are sent it.
FileName = Annotated[Text, StringConstraints(min_length=1), Kind("file")]
_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
#: Names of streams, operations and roles: thresholds and options refer to them.
Name = Annotated[
    Text,
    StringConstraints(pattern=_NAME_PATTERN),
    WithJsonSchema({"type": "string", "pattern": _NAME_PATTERN}),
    Kind("name"),
]
Count = Annotated[int, Field(ge=1), Kind("count")]


@dataclass(frozen=True)
class CountOrDuration:
    """The parsed form of a field that takes either: one of the two."""

    count: int | None = None
    duration_ns: int | None = None


def _parse_count_or_duration(value: Any) -> CountOrDuration:
    if isinstance(value, CountOrDuration):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 1:
            raise expected("a count above zero, or a duration", value)
        return CountOrDuration(count=value)
    if not isinstance(value, str):
        raise expected("a count, or a duration such as '10s'", value)
    duration_ns = units.parse_duration(value)
    if duration_ns == 0:
        raise expected("a duration above zero, or a count", value)
    return CountOrDuration(duration_ns=duration_ns)


def _format_count_or_duration(value: CountOrDuration) -> int | str:
    if value.count is not None:
        return value.count
    return units.format_duration(value.duration_ns or 0)


CountOrDurationField = Annotated[
    CountOrDuration,
    PlainValidator(_parse_count_or_duration),
    PlainSerializer(_format_count_or_duration),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1},
                {"type": "string", "pattern": units.DURATION_PATTERN},
            ]
        }
    ),
    Kind("count or duration", _format_count_or_duration),
]
