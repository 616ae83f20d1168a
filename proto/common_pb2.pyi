from ldapslam.proto import bounds_pb2 as _bounds_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Metric(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    METRIC_UNSPECIFIED: _ClassVar[Metric]
    METRIC_RESPONSE_TIME: _ClassVar[Metric]
    METRIC_SERVICE_TIME: _ClassVar[Metric]
    METRIC_SEND_LAG: _ClassVar[Metric]
    METRIC_RECEIVE_LAG: _ClassVar[Metric]
    METRIC_BACKLOG_WAIT: _ClassVar[Metric]
    METRIC_SEQUENCE_TIME: _ClassVar[Metric]

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_UNSPECIFIED: _ClassVar[Outcome]
    OUTCOME_SUCCEEDED: _ClassVar[Outcome]
    OUTCOME_FAILED: _ClassVar[Outcome]
    OUTCOME_EXPECTED: _ClassVar[Outcome]
    OUTCOME_TIMED_OUT: _ClassVar[Outcome]
    OUTCOME_UNRESOLVED: _ClassVar[Outcome]
METRIC_UNSPECIFIED: Metric
METRIC_RESPONSE_TIME: Metric
METRIC_SERVICE_TIME: Metric
METRIC_SEND_LAG: Metric
METRIC_RECEIVE_LAG: Metric
METRIC_BACKLOG_WAIT: Metric
METRIC_SEQUENCE_TIME: Metric
OUTCOME_UNSPECIFIED: Outcome
OUTCOME_SUCCEEDED: Outcome
OUTCOME_FAILED: Outcome
OUTCOME_EXPECTED: Outcome
OUTCOME_TIMED_OUT: Outcome
OUTCOME_UNRESOLVED: Outcome

class Failure(_message.Message):
    __slots__ = ("error_class", "message", "values_json")
    ERROR_CLASS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    VALUES_JSON_FIELD_NUMBER: _ClassVar[int]
    error_class: str
    message: str
    values_json: str
    def __init__(self, error_class: _Optional[str] = ..., message: _Optional[str] = ..., values_json: _Optional[str] = ...) -> None: ...

class Histogram(_message.Message):
    __slots__ = ("metric", "outcome", "packed")
    METRIC_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    PACKED_FIELD_NUMBER: _ClassVar[int]
    metric: Metric
    outcome: Outcome
    packed: bytes
    def __init__(self, metric: _Optional[_Union[Metric, str]] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., packed: _Optional[bytes] = ...) -> None: ...

class OperationInterval(_message.Message):
    __slots__ = ("stream", "operation", "server", "measured", "scheduled", "sent", "completed", "succeeded", "expected", "failed", "dropped", "timed_out", "unresolved", "abandoned", "substituted", "captures_missing", "requests", "entries", "empty", "references", "result_codes", "diagnostic_messages", "histograms")
    class ResultCodesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    class DiagnosticMessagesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: str
        def __init__(self, key: _Optional[int] = ..., value: _Optional[str] = ...) -> None: ...
    STREAM_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    MEASURED_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    TIMED_OUT_FIELD_NUMBER: _ClassVar[int]
    UNRESOLVED_FIELD_NUMBER: _ClassVar[int]
    ABANDONED_FIELD_NUMBER: _ClassVar[int]
    SUBSTITUTED_FIELD_NUMBER: _ClassVar[int]
    CAPTURES_MISSING_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    EMPTY_FIELD_NUMBER: _ClassVar[int]
    REFERENCES_FIELD_NUMBER: _ClassVar[int]
    RESULT_CODES_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTIC_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    HISTOGRAMS_FIELD_NUMBER: _ClassVar[int]
    stream: str
    operation: str
    server: str
    measured: bool
    scheduled: int
    sent: int
    completed: int
    succeeded: int
    expected: int
    failed: int
    dropped: int
    timed_out: int
    unresolved: int
    abandoned: int
    substituted: int
    captures_missing: int
    requests: int
    entries: int
    empty: int
    references: int
    result_codes: _containers.ScalarMap[int, int]
    diagnostic_messages: _containers.ScalarMap[int, str]
    histograms: _containers.RepeatedCompositeFieldContainer[Histogram]
    def __init__(self, stream: _Optional[str] = ..., operation: _Optional[str] = ..., server: _Optional[str] = ..., measured: bool = ..., scheduled: _Optional[int] = ..., sent: _Optional[int] = ..., completed: _Optional[int] = ..., succeeded: _Optional[int] = ..., expected: _Optional[int] = ..., failed: _Optional[int] = ..., dropped: _Optional[int] = ..., timed_out: _Optional[int] = ..., unresolved: _Optional[int] = ..., abandoned: _Optional[int] = ..., substituted: _Optional[int] = ..., captures_missing: _Optional[int] = ..., requests: _Optional[int] = ..., entries: _Optional[int] = ..., empty: _Optional[int] = ..., references: _Optional[int] = ..., result_codes: _Optional[_Mapping[int, int]] = ..., diagnostic_messages: _Optional[_Mapping[int, str]] = ..., histograms: _Optional[_Iterable[_Union[Histogram, _Mapping]]] = ...) -> None: ...

class StreamInterval(_message.Message):
    __slots__ = ("stream", "connects", "connect_failures", "disconnects", "down_ns", "protocol_errors", "late_responses", "unexpected_messages", "notices", "stamps_missing", "shared_stamps", "binds", "extended", "unbinds", "in_flight", "backlog", "connecting", "other_cause", "refused", "reset", "closed", "no_answer", "unreachable", "tls_failed", "bind_failed", "no_port", "no_descriptor", "no_memory", "no_route", "not_permitted", "no_credentials", "connect_time", "tcp_time", "tls_time", "bind_time", "last_done_ns")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    CONNECTS_FIELD_NUMBER: _ClassVar[int]
    CONNECT_FAILURES_FIELD_NUMBER: _ClassVar[int]
    DISCONNECTS_FIELD_NUMBER: _ClassVar[int]
    DOWN_NS_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_ERRORS_FIELD_NUMBER: _ClassVar[int]
    LATE_RESPONSES_FIELD_NUMBER: _ClassVar[int]
    UNEXPECTED_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    NOTICES_FIELD_NUMBER: _ClassVar[int]
    STAMPS_MISSING_FIELD_NUMBER: _ClassVar[int]
    SHARED_STAMPS_FIELD_NUMBER: _ClassVar[int]
    BINDS_FIELD_NUMBER: _ClassVar[int]
    EXTENDED_FIELD_NUMBER: _ClassVar[int]
    UNBINDS_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_FIELD_NUMBER: _ClassVar[int]
    CONNECTING_FIELD_NUMBER: _ClassVar[int]
    OTHER_CAUSE_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    NO_ANSWER_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    TLS_FAILED_FIELD_NUMBER: _ClassVar[int]
    BIND_FAILED_FIELD_NUMBER: _ClassVar[int]
    NO_PORT_FIELD_NUMBER: _ClassVar[int]
    NO_DESCRIPTOR_FIELD_NUMBER: _ClassVar[int]
    NO_MEMORY_FIELD_NUMBER: _ClassVar[int]
    NO_ROUTE_FIELD_NUMBER: _ClassVar[int]
    NOT_PERMITTED_FIELD_NUMBER: _ClassVar[int]
    NO_CREDENTIALS_FIELD_NUMBER: _ClassVar[int]
    CONNECT_TIME_FIELD_NUMBER: _ClassVar[int]
    TCP_TIME_FIELD_NUMBER: _ClassVar[int]
    TLS_TIME_FIELD_NUMBER: _ClassVar[int]
    BIND_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_DONE_NS_FIELD_NUMBER: _ClassVar[int]
    stream: str
    connects: int
    connect_failures: int
    disconnects: int
    down_ns: int
    protocol_errors: int
    late_responses: int
    unexpected_messages: int
    notices: int
    stamps_missing: int
    shared_stamps: int
    binds: int
    extended: int
    unbinds: int
    in_flight: int
    backlog: int
    connecting: int
    other_cause: int
    refused: int
    reset: int
    closed: int
    no_answer: int
    unreachable: int
    tls_failed: int
    bind_failed: int
    no_port: int
    no_descriptor: int
    no_memory: int
    no_route: int
    not_permitted: int
    no_credentials: int
    connect_time: bytes
    tcp_time: bytes
    tls_time: bytes
    bind_time: bytes
    last_done_ns: int
    def __init__(self, stream: _Optional[str] = ..., connects: _Optional[int] = ..., connect_failures: _Optional[int] = ..., disconnects: _Optional[int] = ..., down_ns: _Optional[int] = ..., protocol_errors: _Optional[int] = ..., late_responses: _Optional[int] = ..., unexpected_messages: _Optional[int] = ..., notices: _Optional[int] = ..., stamps_missing: _Optional[int] = ..., shared_stamps: _Optional[int] = ..., binds: _Optional[int] = ..., extended: _Optional[int] = ..., unbinds: _Optional[int] = ..., in_flight: _Optional[int] = ..., backlog: _Optional[int] = ..., connecting: _Optional[int] = ..., other_cause: _Optional[int] = ..., refused: _Optional[int] = ..., reset: _Optional[int] = ..., closed: _Optional[int] = ..., no_answer: _Optional[int] = ..., unreachable: _Optional[int] = ..., tls_failed: _Optional[int] = ..., bind_failed: _Optional[int] = ..., no_port: _Optional[int] = ..., no_descriptor: _Optional[int] = ..., no_memory: _Optional[int] = ..., no_route: _Optional[int] = ..., not_permitted: _Optional[int] = ..., no_credentials: _Optional[int] = ..., connect_time: _Optional[bytes] = ..., tcp_time: _Optional[bytes] = ..., tls_time: _Optional[bytes] = ..., bind_time: _Optional[bytes] = ..., last_done_ns: _Optional[int] = ...) -> None: ...

class WorkerInterval(_message.Message):
    __slots__ = ("worker", "model", "wall_ns", "busy_ns", "spin_ns", "cpu_ns", "run_queue_ns", "loops")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    WALL_NS_FIELD_NUMBER: _ClassVar[int]
    BUSY_NS_FIELD_NUMBER: _ClassVar[int]
    SPIN_NS_FIELD_NUMBER: _ClassVar[int]
    CPU_NS_FIELD_NUMBER: _ClassVar[int]
    RUN_QUEUE_NS_FIELD_NUMBER: _ClassVar[int]
    LOOPS_FIELD_NUMBER: _ClassVar[int]
    worker: int
    model: str
    wall_ns: int
    busy_ns: int
    spin_ns: int
    cpu_ns: int
    run_queue_ns: int
    loops: int
    def __init__(self, worker: _Optional[int] = ..., model: _Optional[str] = ..., wall_ns: _Optional[int] = ..., busy_ns: _Optional[int] = ..., spin_ns: _Optional[int] = ..., cpu_ns: _Optional[int] = ..., run_queue_ns: _Optional[int] = ..., loops: _Optional[int] = ...) -> None: ...

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

class Snapshot(_message.Message):
    __slots__ = ("index", "phase", "start_ns", "end_ns", "final", "operations", "streams", "workers", "host", "clock_step_ns")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    START_NS_FIELD_NUMBER: _ClassVar[int]
    END_NS_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    CLOCK_STEP_NS_FIELD_NUMBER: _ClassVar[int]
    index: int
    phase: str
    start_ns: int
    end_ns: int
    final: bool
    operations: _containers.RepeatedCompositeFieldContainer[OperationInterval]
    streams: _containers.RepeatedCompositeFieldContainer[StreamInterval]
    workers: _containers.RepeatedCompositeFieldContainer[WorkerInterval]
    host: HostInterval
    clock_step_ns: int
    def __init__(self, index: _Optional[int] = ..., phase: _Optional[str] = ..., start_ns: _Optional[int] = ..., end_ns: _Optional[int] = ..., final: bool = ..., operations: _Optional[_Iterable[_Union[OperationInterval, _Mapping]]] = ..., streams: _Optional[_Iterable[_Union[StreamInterval, _Mapping]]] = ..., workers: _Optional[_Iterable[_Union[WorkerInterval, _Mapping]]] = ..., host: _Optional[_Union[HostInterval, _Mapping]] = ..., clock_step_ns: _Optional[int] = ...) -> None: ...

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
