from ldapslam.proto import bounds_pb2 as _bounds_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Failure(_message.Message):
    __slots__ = ("error_class", "message", "values_json")
    ERROR_CLASS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    VALUES_JSON_FIELD_NUMBER: _ClassVar[int]
    error_class: str
    message: str
    values_json: str
    def __init__(self, error_class: _Optional[str] = ..., message: _Optional[str] = ..., values_json: _Optional[str] = ...) -> None: ...

class HostInterval(_message.Message):
    __slots__ = ("cpu_utilisation", "steal_share", "throttled_ns", "hiccup_max_ns", "stalled_ns")
    CPU_UTILISATION_FIELD_NUMBER: _ClassVar[int]
    STEAL_SHARE_FIELD_NUMBER: _ClassVar[int]
    THROTTLED_NS_FIELD_NUMBER: _ClassVar[int]
    HICCUP_MAX_NS_FIELD_NUMBER: _ClassVar[int]
    STALLED_NS_FIELD_NUMBER: _ClassVar[int]
    cpu_utilisation: float
    steal_share: float
    throttled_ns: int
    hiccup_max_ns: int
    stalled_ns: int
    def __init__(self, cpu_utilisation: _Optional[float] = ..., steal_share: _Optional[float] = ..., throttled_ns: _Optional[int] = ..., hiccup_max_ns: _Optional[int] = ..., stalled_ns: _Optional[int] = ...) -> None: ...

class Names(_message.Message):
    __slots__ = ("streams",)
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    streams: _containers.RepeatedCompositeFieldContainer[StreamNames]
    def __init__(self, streams: _Optional[_Iterable[_Union[StreamNames, _Mapping]]] = ...) -> None: ...

class StreamNames(_message.Message):
    __slots__ = ("stream", "operations", "servers")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    stream: str
    operations: _containers.RepeatedScalarFieldContainer[str]
    servers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, stream: _Optional[str] = ..., operations: _Optional[_Iterable[str]] = ..., servers: _Optional[_Iterable[str]] = ...) -> None: ...

class Snapshot(_message.Message):
    __slots__ = ("index", "phase", "start_ns", "end_ns", "final", "host", "clock_step_ns", "layout", "names", "operations", "responses", "streams", "workers", "messages", "histograms", "set_ups")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    START_NS_FIELD_NUMBER: _ClassVar[int]
    END_NS_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    CLOCK_STEP_NS_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    RESPONSES_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    HISTOGRAMS_FIELD_NUMBER: _ClassVar[int]
    SET_UPS_FIELD_NUMBER: _ClassVar[int]
    index: int
    phase: str
    start_ns: int
    end_ns: int
    final: bool
    host: HostInterval
    clock_step_ns: int
    layout: int
    names: bytes
    operations: bytes
    responses: bytes
    streams: bytes
    workers: bytes
    messages: bytes
    histograms: bytes
    set_ups: bytes
    def __init__(self, index: _Optional[int] = ..., phase: _Optional[str] = ..., start_ns: _Optional[int] = ..., end_ns: _Optional[int] = ..., final: bool = ..., host: _Optional[_Union[HostInterval, _Mapping]] = ..., clock_step_ns: _Optional[int] = ..., layout: _Optional[int] = ..., names: _Optional[bytes] = ..., operations: _Optional[bytes] = ..., responses: _Optional[bytes] = ..., streams: _Optional[bytes] = ..., workers: _Optional[bytes] = ..., messages: _Optional[bytes] = ..., histograms: _Optional[bytes] = ..., set_ups: _Optional[bytes] = ...) -> None: ...

class CleaningUp(_message.Message):
    __slots__ = ("entries_left",)
    ENTRIES_LEFT_FIELD_NUMBER: _ClassVar[int]
    entries_left: int
    def __init__(self, entries_left: _Optional[int] = ...) -> None: ...

class RunAssignment(_message.Message):
    __slots__ = ("run_id", "job_file", "job_text", "overrides", "files", "agent_index", "agent_count", "seed", "coordinator_timeout_ns", "attempt", "store_id")
    class FilesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_FILE_FIELD_NUMBER: _ClassVar[int]
    JOB_TEXT_FIELD_NUMBER: _ClassVar[int]
    OVERRIDES_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    AGENT_INDEX_FIELD_NUMBER: _ClassVar[int]
    AGENT_COUNT_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_TIMEOUT_NS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    STORE_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    job_file: str
    job_text: bytes
    overrides: _containers.RepeatedScalarFieldContainer[str]
    files: _containers.ScalarMap[str, bytes]
    agent_index: int
    agent_count: int
    seed: int
    coordinator_timeout_ns: int
    attempt: int
    store_id: str
    def __init__(self, run_id: _Optional[str] = ..., job_file: _Optional[str] = ..., job_text: _Optional[bytes] = ..., overrides: _Optional[_Iterable[str]] = ..., files: _Optional[_Mapping[str, bytes]] = ..., agent_index: _Optional[int] = ..., agent_count: _Optional[int] = ..., seed: _Optional[int] = ..., coordinator_timeout_ns: _Optional[int] = ..., attempt: _Optional[int] = ..., store_id: _Optional[str] = ...) -> None: ...
