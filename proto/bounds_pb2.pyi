from google.protobuf import descriptor_pb2 as _descriptor_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Shape(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SHAPE_LINE: _ClassVar[Shape]
    SHAPE_NAME: _ClassVar[Shape]
    SHAPE_JSON: _ClassVar[Shape]
    SHAPE_TEXT: _ClassVar[Shape]
SHAPE_LINE: Shape
SHAPE_NAME: Shape
SHAPE_JSON: Shape
SHAPE_TEXT: Shape
BOUND_FIELD_NUMBER: _ClassVar[int]
bound: _descriptor.FieldDescriptor

class Bound(_message.Message):
    __slots__ = ("length", "items", "shape")
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    length: int
    items: int
    shape: Shape
    def __init__(self, length: _Optional[int] = ..., items: _Optional[int] = ..., shape: _Optional[_Union[Shape, str]] = ...) -> None: ...
