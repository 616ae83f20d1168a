# SPDX-License-Identifier: Apache-2.0
"""What the parts of a job file are made of: `Section` and the types of its fields.

A section is a pydantic model whose docstring, and the text below each field, are the
job file's documentation (describe.py): every field says what it is, in which unit, and
has an example where it has no default. Field types parse the notation of the file into
plain numbers; a field `limit_ns` is the key `limit`.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import itertools
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import (
    Annotated,
    Any,
    ClassVar,
    Self,
    cast,
    get_args,
    get_origin,
)

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import InitErrorDetails

from ldapslam.base import units
from ldapslam.base.fault import Fault, expected, one_of
from ldapslam.jobs.fields.context import Reading

#: Where a fault is, from the section that finds it: keys and list indexes. KEY as the
#: last step means the key rather than the value.
Place = tuple[str | int, ...]
KEY = "[key]"
Found = tuple[Place, Fault]


class Section(BaseModel):
    """One mapping of the job file: unknown keys are faults, nothing is coerced.

    What a section says as a whole is checked when its fields, and the sections in them,
    have no fault.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        defer_build=True,
        alias_generator=lambda name: name.removesuffix("_ns"),
    )

    #: Exactly one of these keys must be given, if any are listed.
    exactly_one: ClassVar[tuple[str, ...]] = ()
    #: At least one of these keys must be given, if any are listed.
    at_least_one: ClassVar[tuple[str, ...]] = ()
    #: Key -> another one that must be given with it.
    needs: ClassVar[Mapping[str, str]] = {}
    #: The key that has attributes of an entry below it, if there is one.
    attributes_key: ClassVar[str] = ""
    #: What the keys of `exactly_one` are called in messages.
    choice_noun: ClassVar[str] = "key"
    #: The methods marked with @checked.
    checks: ClassVar[tuple[Callable[..., Iterable[Found] | None], ...]] = ()

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        # functions only: to ask a deferred validator for an attribute builds it
        functions = filter(inspect.isfunction, vars(cls).values())
        own = [one for one in functions if hasattr(one, "takes_reading")]
        cls.checks = (*cls.checks, *own)

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Self:
        reading = Reading.of(info)
        if not reading.is_checked:
            return self
        errors = [
            InitErrorDetails(
                type="value_error", loc=place, input=None, ctx={"error": fault}
            )
            for place, fault in [*self._choices()] or self._found(reading)
        ]
        if errors:
            raise ValidationError.from_exception_data(type(self).__name__, errors)
        return self

    def _choices(self) -> Iterator[Found]:
        """Yield faults of keys of which one, or one with another, must be given."""
        fields = type(self).model_fields
        values: dict[str, Any] = dict.fromkeys(keys_of(type(self)))
        for name in self.model_fields_set:
            values[_key(name, fields[name])] = getattr(self, name)
        given = [key for key in self.exactly_one if values[key] is not None]
        if self.exactly_one and len(given) != 1:
            reason = (
                f"expected exactly one of {', '.join(self.exactly_one)}, "
                f"got {' and '.join(given) or 'none'}"
            )
            hint = "keep one" if given else f"add {one_of(self.exactly_one)}"
            if given and self.choice_noun != "key":
                hint += ", or give each an item, with a dash, of its own"
            yield (), Fault(reason, hint)
        for key, other in self.needs.items() if len(given) < 2 else ():
            if values[key] is not None and values[other] is None:
                reason = f"the key {other!r} is missing: {key!r} needs it"
                yield (), Fault(reason, field_text(type(self), other))
        if self.at_least_one and not any(values[key] for key in self.at_least_one):
            hint = f"give {one_of(self.at_least_one)}"
            yield (), Fault("expected at least one change, got none", hint)

    def _found(self, reading: Reading) -> Iterator[Found]:
        """Yield what the section's checks find."""
        for check in self.checks:
            try:
                yield from check(self, *[reading] * check.takes_reading) or ()  # type: ignore[attr-defined]
            except Fault as fault:
                yield (), fault

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> Any:
        schema = handler(core_schema)
        body = handler.resolve_ref_schema(schema)
        body["description"] = cls.summary()
        for key, info in fields_of(cls):
            found = {"description": info.description, "default": default_in_file(info)}
            body["properties"][key] |= {k: v for k, v in found.items() if v is not None}
        if cls.exactly_one:
            body["oneOf"] = [{"required": [key]} for key in cls.exactly_one]
        if cls.at_least_one:
            body["anyOf"] = [{"required": [key]} for key in cls.at_least_one]
        return schema

    @classmethod
    def summary(cls) -> str:
        """What the section is, as one paragraph."""
        return " ".join((cls.__doc__ or "").split())


def _key(name: str, info: FieldInfo) -> str:
    return info.alias or name.removesuffix("_ns")


def one_or_more_schema(item: dict[str, Any], **limits: Any) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [item, {"type": "array", "items": item, **limits}]})


def one_or_more(value: Any) -> Any:
    """A text alone as a list of one: for BeforeValidator."""
    return [value] if isinstance(value, str) else value


def matching(pattern: str, what: str, hint: str | None = None) -> AfterValidator:
    """A check of texts: the pattern matches the whole of each, or it is not `what`."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text, re.ASCII):
            raise expected(what, text, hint)
        return text

    return AfterValidator(check)


def checked(check: Callable[..., Iterable[Found] | None]) -> Any:
    """Decorator of a section's method that says what is wrong between its fields. It
    raises a Fault of the section, or yields faults with their places. A second
    parameter is the Reading."""
    check.takes_reading = len(inspect.signature(check).parameters) - 1  # type: ignore[attr-defined]
    return check


@dataclass(frozen=True)
class Kind:
    """Annotation of a field type: what `describe` and the schema make of it."""

    #: What a reader of the job file calls the type.
    name: str
    #: From the model's value to the file's notation; None where they are the same.
    notation: Callable[[Any], str | int] | None = None


def keys_of(section: type[Section]) -> dict[str, FieldInfo]:
    """Key in the job file and definition of each field, in the file's order."""
    return {_key(name, info): info for name, info in section.model_fields.items()}


def fields_of(section: type[Section]) -> Iterator[tuple[str, FieldInfo]]:
    """As keys_of, with the fields' descriptions, which take time to read."""
    texts = _texts(section)
    for name, info in section.model_fields.items():
        info.description = info.description or texts.get(name)
        yield _key(name, info), info


@functools.cache
def _texts(section: type[Section]) -> dict[str, str]:
    """The text below each field, from the source: Python does not keep it."""
    texts: dict[str, str] = {}
    for one in section.__mro__[section.__mro__.index(Section) :: -1]:
        # create_model's classes have no source, nor do those that are typed in
        with contextlib.suppress(OSError, TypeError, SyntaxError, ValueError):
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(one))).body
            for pair in itertools.pairwise(cast(ast.ClassDef, tree).body):
                match pair:
                    case (
                        ast.AnnAssign(target=ast.Name(id=name)),
                        ast.Expr(value=ast.Constant(value=str() as text)),
                    ):
                        texts[name] = " ".join(text.split())
    return texts


def field_of(section: type[Section], key: str) -> FieldInfo | None:
    return keys_of(section).get(key)


def field_text(section: type[Section], key: str) -> str:
    """What a field is for, as a hint."""
    info = dict(fields_of(section))[key]
    example = f", such as {info.examples[0]}" if info.examples else ""
    return f"{key}: {info.description or 'see its type'}{example}"


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
    """The sections in a field, at any depth, and whether in a list."""
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
    """The first section of a field; `of_item`: only in a list, or only outside one."""
    for section, in_list in sections_in(annotation):
        if of_item in (None, in_list):
            return section
    return None


def _above_zero(duration_ns: int) -> int:
    if duration_ns == 0:
        raise expected("a duration above zero", units.format_duration(duration_ns))
    return duration_ns


def _at_least_100ms(duration_ns: int) -> int:
    if duration_ns < units.NS_PER_S // 10:
        raise expected("at least 100ms", units.format_duration(duration_ns))
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
#: Nanoseconds; what is done that often costs next to nothing.
Interval = Annotated[Duration, AfterValidator(_at_least_100ms)]
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
    BeforeValidator(units.parse_ratio),
    PlainSerializer(units.format_ratio, return_type=str),
    WithJsonSchema({"type": "string", "pattern": units.RATIO_PATTERN}),
    Kind("percentage", units.format_ratio),
]
Flag = Annotated[
    bool, PlainValidator(_flag), WithJsonSchema({"type": "boolean"}), Kind("true|false")
]
Text = Annotated[str, BeforeValidator(_text), Kind("text")]
#: Beginning of the tags of a union's members; pydantic has them in its paths.
UNION_TAG = "[tag:"


#: A file that the job needs, by its path relative to the job file; agents are sent it.
FileName = Annotated[
    Text,
    StringConstraints(min_length=1),
    AfterValidator(lambda path, info: Reading.of(info).need(path)),
    Kind("file"),
]
#: One that each agent has on its own host.
HostFile = Annotated[
    Text,
    AfterValidator(lambda path, info: Reading.of(info).need_on_host(path)),
    Kind("path"),
]
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
#: Names of streams, operations and roles: thresholds and options refer to them.
Name = Annotated[
    Text,
    StringConstraints(pattern=NAME_PATTERN),
    WithJsonSchema({"type": "string", "pattern": NAME_PATTERN}),
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
