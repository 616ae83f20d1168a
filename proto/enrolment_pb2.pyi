from ldapslam.proto import bounds_pb2 as _bounds_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class EnrolRequest(_message.Message):
    __slots__ = ("token", "request_pem")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_PEM_FIELD_NUMBER: _ClassVar[int]
    token: str
    request_pem: bytes
    def __init__(self, token: _Optional[str] = ..., request_pem: _Optional[bytes] = ...) -> None: ...

class RenewRequest(_message.Message):
    __slots__ = ("request_pem",)
    REQUEST_PEM_FIELD_NUMBER: _ClassVar[int]
    request_pem: bytes
    def __init__(self, request_pem: _Optional[bytes] = ...) -> None: ...

class EnrolReply(_message.Message):
    __slots__ = ("certificate_pem", "authority_pem")
    CERTIFICATE_PEM_FIELD_NUMBER: _ClassVar[int]
    AUTHORITY_PEM_FIELD_NUMBER: _ClassVar[int]
    certificate_pem: bytes
    authority_pem: bytes
    def __init__(self, certificate_pem: _Optional[bytes] = ..., authority_pem: _Optional[bytes] = ...) -> None: ...
