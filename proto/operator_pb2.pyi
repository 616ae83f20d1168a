from ldapslam.proto import agent_pb2 as _agent_pb2
from ldapslam.proto import bounds_pb2 as _bounds_pb2
from ldapslam.proto import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RunCondition(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RUN_CONDITION_ANY: _ClassVar[RunCondition]
    RUN_CONDITION_PASS: _ClassVar[RunCondition]
    RUN_CONDITION_FAIL: _ClassVar[RunCondition]
RUN_CONDITION_ANY: RunCondition
RUN_CONDITION_PASS: RunCondition
RUN_CONDITION_FAIL: RunCondition

class SubmitJobRequest(_message.Message):
    __slots__ = ("protocol_version", "build", "job_file", "job_text", "overrides", "files", "submitted_by", "priority", "not_before_utc", "after_run", "after_if", "wait_for_agents_ns", "lab")
    class FilesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    class LabEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    BUILD_FIELD_NUMBER: _ClassVar[int]
    JOB_FILE_FIELD_NUMBER: _ClassVar[int]
    JOB_TEXT_FIELD_NUMBER: _ClassVar[int]
    OVERRIDES_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_BY_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    NOT_BEFORE_UTC_FIELD_NUMBER: _ClassVar[int]
    AFTER_RUN_FIELD_NUMBER: _ClassVar[int]
    AFTER_IF_FIELD_NUMBER: _ClassVar[int]
    WAIT_FOR_AGENTS_NS_FIELD_NUMBER: _ClassVar[int]
    LAB_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    build: str
    job_file: str
    job_text: bytes
    overrides: _containers.RepeatedScalarFieldContainer[str]
    files: _containers.ScalarMap[str, bytes]
    submitted_by: str
    priority: int
    not_before_utc: str
    after_run: str
    after_if: RunCondition
    wait_for_agents_ns: int
    lab: _containers.ScalarMap[str, str]
    def __init__(self, protocol_version: _Optional[int] = ..., build: _Optional[str] = ..., job_file: _Optional[str] = ..., job_text: _Optional[bytes] = ..., overrides: _Optional[_Iterable[str]] = ..., files: _Optional[_Mapping[str, bytes]] = ..., submitted_by: _Optional[str] = ..., priority: _Optional[int] = ..., not_before_utc: _Optional[str] = ..., after_run: _Optional[str] = ..., after_if: _Optional[_Union[RunCondition, str]] = ..., wait_for_agents_ns: _Optional[int] = ..., lab: _Optional[_Mapping[str, str]] = ...) -> None: ...

class SubmitJobReply(_message.Message):
    __slots__ = ("run_id",)
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    def __init__(self, run_id: _Optional[str] = ...) -> None: ...

class ListRunsRequest(_message.Message):
    __slots__ = ("limit",)
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    limit: int
    def __init__(self, limit: _Optional[int] = ...) -> None: ...

class ListRunsReply(_message.Message):
    __slots__ = ("runs",)
    RUNS_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[RunStatus]
    def __init__(self, runs: _Optional[_Iterable[_Union[RunStatus, _Mapping]]] = ...) -> None: ...

class GetRunRequest(_message.Message):
    __slots__ = ("run_id",)
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    def __init__(self, run_id: _Optional[str] = ...) -> None: ...

class WatchRunRequest(_message.Message):
    __slots__ = ("run_id",)
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    def __init__(self, run_id: _Optional[str] = ...) -> None: ...

class CancelRunRequest(_message.Message):
    __slots__ = ("run_id", "cancelled_by")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_BY_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    cancelled_by: str
    def __init__(self, run_id: _Optional[str] = ..., cancelled_by: _Optional[str] = ...) -> None: ...

class ListAgentsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FetchRunRequest(_message.Message):
    __slots__ = ("run_id",)
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    def __init__(self, run_id: _Optional[str] = ...) -> None: ...

class FetchRunChunk(_message.Message):
    __slots__ = ("content",)
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    def __init__(self, content: _Optional[bytes] = ...) -> None: ...

class RunStatus(_message.Message):
    __slots__ = ("run_id", "job_name", "state", "state_detail", "failure", "submitted_utc", "submitted_by", "t0_utc", "finished_utc", "agents", "planned_ns", "events", "verdict", "priority", "schedule_id")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STATE_DETAIL_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_UTC_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_BY_FIELD_NUMBER: _ClassVar[int]
    T0_UTC_FIELD_NUMBER: _ClassVar[int]
    FINISHED_UTC_FIELD_NUMBER: _ClassVar[int]
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    PLANNED_NS_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    job_name: str
    state: str
    state_detail: str
    failure: _common_pb2.Failure
    submitted_utc: str
    submitted_by: str
    t0_utc: str
    finished_utc: str
    agents: _containers.RepeatedScalarFieldContainer[str]
    planned_ns: int
    events: _containers.RepeatedCompositeFieldContainer[RunEvent]
    verdict: str
    priority: int
    schedule_id: str
    def __init__(self, run_id: _Optional[str] = ..., job_name: _Optional[str] = ..., state: _Optional[str] = ..., state_detail: _Optional[str] = ..., failure: _Optional[_Union[_common_pb2.Failure, _Mapping]] = ..., submitted_utc: _Optional[str] = ..., submitted_by: _Optional[str] = ..., t0_utc: _Optional[str] = ..., finished_utc: _Optional[str] = ..., agents: _Optional[_Iterable[str]] = ..., planned_ns: _Optional[int] = ..., events: _Optional[_Iterable[_Union[RunEvent, _Mapping]]] = ..., verdict: _Optional[str] = ..., priority: _Optional[int] = ..., schedule_id: _Optional[str] = ...) -> None: ...

class RunEvent(_message.Message):
    __slots__ = ("at_utc", "kind", "text")
    AT_UTC_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    at_utc: str
    kind: str
    text: str
    def __init__(self, at_utc: _Optional[str] = ..., kind: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class RunUpdate(_message.Message):
    __slots__ = ("status", "figures", "event")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    FIGURES_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    status: RunStatus
    figures: IntervalFigures
    event: RunEvent
    def __init__(self, status: _Optional[_Union[RunStatus, _Mapping]] = ..., figures: _Optional[_Union[IntervalFigures, _Mapping]] = ..., event: _Optional[_Union[RunEvent, _Mapping]] = ...) -> None: ...

class IntervalFigures(_message.Message):
    __slots__ = ("index", "phase", "start_ns", "end_ns", "streams", "agents_reported", "agents_planned", "busy_share")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    START_NS_FIELD_NUMBER: _ClassVar[int]
    END_NS_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    AGENTS_REPORTED_FIELD_NUMBER: _ClassVar[int]
    AGENTS_PLANNED_FIELD_NUMBER: _ClassVar[int]
    BUSY_SHARE_FIELD_NUMBER: _ClassVar[int]
    index: int
    phase: str
    start_ns: int
    end_ns: int
    streams: _containers.RepeatedCompositeFieldContainer[StreamFigures]
    agents_reported: int
    agents_planned: int
    busy_share: float
    def __init__(self, index: _Optional[int] = ..., phase: _Optional[str] = ..., start_ns: _Optional[int] = ..., end_ns: _Optional[int] = ..., streams: _Optional[_Iterable[_Union[StreamFigures, _Mapping]]] = ..., agents_reported: _Optional[int] = ..., agents_planned: _Optional[int] = ..., busy_share: _Optional[float] = ...) -> None: ...

class StreamFigures(_message.Message):
    __slots__ = ("stream", "total", "operations", "in_flight", "backlog", "connections_down", "connections", "clients")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_FIELD_NUMBER: _ClassVar[int]
    CONNECTIONS_DOWN_FIELD_NUMBER: _ClassVar[int]
    CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    CLIENTS_FIELD_NUMBER: _ClassVar[int]
    stream: str
    total: OperationFigures
    operations: _containers.RepeatedCompositeFieldContainer[OperationFigures]
    in_flight: int
    backlog: int
    connections_down: float
    connections: int
    clients: int
    def __init__(self, stream: _Optional[str] = ..., total: _Optional[_Union[OperationFigures, _Mapping]] = ..., operations: _Optional[_Iterable[_Union[OperationFigures, _Mapping]]] = ..., in_flight: _Optional[int] = ..., backlog: _Optional[int] = ..., connections_down: _Optional[float] = ..., connections: _Optional[int] = ..., clients: _Optional[int] = ...) -> None: ...

class OperationFigures(_message.Message):
    __slots__ = ("operation", "throughput_per_s", "completed", "errors", "dropped", "searches", "entries", "empty_share", "response_time_p50_us", "response_time_p95_us", "response_time_p99_us", "response_time_max_us", "error_code")
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    THROUGHPUT_PER_S_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    SEARCHES_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    EMPTY_SHARE_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_TIME_P50_US_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_TIME_P95_US_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_TIME_P99_US_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_TIME_MAX_US_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    operation: str
    throughput_per_s: float
    completed: int
    errors: int
    dropped: int
    searches: int
    entries: int
    empty_share: float
    response_time_p50_us: float
    response_time_p95_us: float
    response_time_p99_us: float
    response_time_max_us: float
    error_code: int
    def __init__(self, operation: _Optional[str] = ..., throughput_per_s: _Optional[float] = ..., completed: _Optional[int] = ..., errors: _Optional[int] = ..., dropped: _Optional[int] = ..., searches: _Optional[int] = ..., entries: _Optional[int] = ..., empty_share: _Optional[float] = ..., response_time_p50_us: _Optional[float] = ..., response_time_p95_us: _Optional[float] = ..., response_time_p99_us: _Optional[float] = ..., response_time_max_us: _Optional[float] = ..., error_code: _Optional[int] = ...) -> None: ...

class AgentStatus(_message.Message):
    __slots__ = ("name", "state", "build", "labels", "silent_ns", "clock_offset_ns", "clock_offset_bound_ns", "host_facts_json", "run_ids", "max_runs", "restricted", "limits_json", "load")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    BUILD_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    SILENT_NS_FIELD_NUMBER: _ClassVar[int]
    CLOCK_OFFSET_NS_FIELD_NUMBER: _ClassVar[int]
    CLOCK_OFFSET_BOUND_NS_FIELD_NUMBER: _ClassVar[int]
    HOST_FACTS_JSON_FIELD_NUMBER: _ClassVar[int]
    RUN_IDS_FIELD_NUMBER: _ClassVar[int]
    MAX_RUNS_FIELD_NUMBER: _ClassVar[int]
    RESTRICTED_FIELD_NUMBER: _ClassVar[int]
    LIMITS_JSON_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    name: str
    state: str
    build: str
    labels: _containers.ScalarMap[str, str]
    silent_ns: int
    clock_offset_ns: int
    clock_offset_bound_ns: int
    host_facts_json: str
    run_ids: _containers.RepeatedScalarFieldContainer[str]
    max_runs: int
    restricted: bool
    limits_json: str
    load: _agent_pb2.HostLoad
    def __init__(self, name: _Optional[str] = ..., state: _Optional[str] = ..., build: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., silent_ns: _Optional[int] = ..., clock_offset_ns: _Optional[int] = ..., clock_offset_bound_ns: _Optional[int] = ..., host_facts_json: _Optional[str] = ..., run_ids: _Optional[_Iterable[str]] = ..., max_runs: _Optional[int] = ..., restricted: bool = ..., limits_json: _Optional[str] = ..., load: _Optional[_Union[_agent_pb2.HostLoad, _Mapping]] = ...) -> None: ...

class ListAgentsReply(_message.Message):
    __slots__ = ("agents",)
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    agents: _containers.RepeatedCompositeFieldContainer[AgentStatus]
    def __init__(self, agents: _Optional[_Iterable[_Union[AgentStatus, _Mapping]]] = ...) -> None: ...
