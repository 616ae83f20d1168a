from ldapslam.proto import bounds_pb2 as _bounds_pb2
from ldapslam.proto import common_pb2 as _common_pb2
from ldapslam.proto import monitor_pb2 as _monitor_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RegisterRequest(_message.Message):
    __slots__ = ("protocol_version", "build", "name", "instance_id", "epoch", "labels", "host_facts_json", "runs", "max_runs", "restricted", "host_id", "limits_json", "clock_id", "monitored_runs")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    BUILD_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    HOST_FACTS_JSON_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    MAX_RUNS_FIELD_NUMBER: _ClassVar[int]
    RESTRICTED_FIELD_NUMBER: _ClassVar[int]
    HOST_ID_FIELD_NUMBER: _ClassVar[int]
    LIMITS_JSON_FIELD_NUMBER: _ClassVar[int]
    CLOCK_ID_FIELD_NUMBER: _ClassVar[int]
    MONITORED_RUNS_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    build: str
    name: str
    instance_id: str
    epoch: int
    labels: _containers.ScalarMap[str, str]
    host_facts_json: str
    runs: _containers.RepeatedCompositeFieldContainer[RunPart]
    max_runs: int
    restricted: bool
    host_id: str
    limits_json: str
    clock_id: str
    monitored_runs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, protocol_version: _Optional[int] = ..., build: _Optional[str] = ..., name: _Optional[str] = ..., instance_id: _Optional[str] = ..., epoch: _Optional[int] = ..., labels: _Optional[_Mapping[str, str]] = ..., host_facts_json: _Optional[str] = ..., runs: _Optional[_Iterable[_Union[RunPart, _Mapping]]] = ..., max_runs: _Optional[int] = ..., restricted: bool = ..., host_id: _Optional[str] = ..., limits_json: _Optional[str] = ..., clock_id: _Optional[str] = ..., monitored_runs: _Optional[_Iterable[str]] = ...) -> None: ...

class RunPart(_message.Message):
    __slots__ = ("run_id", "state")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    state: str
    def __init__(self, run_id: _Optional[str] = ..., state: _Optional[str] = ...) -> None: ...

class RegisterReply(_message.Message):
    __slots__ = ("session_id", "build", "heartbeat_interval_ns", "resumed", "store_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    BUILD_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_NS_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    STORE_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    build: str
    heartbeat_interval_ns: int
    resumed: bool
    store_id: str
    def __init__(self, session_id: _Optional[str] = ..., build: _Optional[str] = ..., heartbeat_interval_ns: _Optional[int] = ..., resumed: bool = ..., store_id: _Optional[str] = ...) -> None: ...

class CommandsRequest(_message.Message):
    __slots__ = ("session_id", "last_command")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_COMMAND_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    last_command: int
    def __init__(self, session_id: _Optional[str] = ..., last_command: _Optional[int] = ...) -> None: ...

class Command(_message.Message):
    __slots__ = ("number", "prepare", "start", "stop", "monitor", "conclude", "end_monitoring")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    PREPARE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    MONITOR_FIELD_NUMBER: _ClassVar[int]
    CONCLUDE_FIELD_NUMBER: _ClassVar[int]
    END_MONITORING_FIELD_NUMBER: _ClassVar[int]
    number: int
    prepare: _common_pb2.RunAssignment
    start: StartRun
    stop: StopRun
    monitor: MonitorRun
    conclude: ConcludeMonitoring
    end_monitoring: EndMonitoring
    def __init__(self, number: _Optional[int] = ..., prepare: _Optional[_Union[_common_pb2.RunAssignment, _Mapping]] = ..., start: _Optional[_Union[StartRun, _Mapping]] = ..., stop: _Optional[_Union[StopRun, _Mapping]] = ..., monitor: _Optional[_Union[MonitorRun, _Mapping]] = ..., conclude: _Optional[_Union[ConcludeMonitoring, _Mapping]] = ..., end_monitoring: _Optional[_Union[EndMonitoring, _Mapping]] = ...) -> None: ...

class MonitorRun(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: _common_pb2.RunAssignment
    def __init__(self, run: _Optional[_Union[_common_pb2.RunAssignment, _Mapping]] = ...) -> None: ...

class ConcludeMonitoring(_message.Message):
    __slots__ = ("run_id", "verify", "attempt")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    VERIFY_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    verify: bool
    attempt: int
    def __init__(self, run_id: _Optional[str] = ..., verify: bool = ..., attempt: _Optional[int] = ...) -> None: ...

class EndMonitoring(_message.Message):
    __slots__ = ("run_id",)
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    def __init__(self, run_id: _Optional[str] = ...) -> None: ...

class StartRun(_message.Message):
    __slots__ = ("run_id", "t0_mono_ns")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    T0_MONO_NS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    t0_mono_ns: int
    def __init__(self, run_id: _Optional[str] = ..., t0_mono_ns: _Optional[int] = ...) -> None: ...

class StopRun(_message.Message):
    __slots__ = ("run_id", "reason", "abandon")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ABANDON_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    reason: str
    abandon: bool
    def __init__(self, run_id: _Optional[str] = ..., reason: _Optional[str] = ..., abandon: bool = ...) -> None: ...

class ClockSample(_message.Message):
    __slots__ = ("agent_sent_mono_ns", "coordinator_received_mono_ns", "coordinator_sent_mono_ns", "agent_received_mono_ns")
    AGENT_SENT_MONO_NS_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_RECEIVED_MONO_NS_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_SENT_MONO_NS_FIELD_NUMBER: _ClassVar[int]
    AGENT_RECEIVED_MONO_NS_FIELD_NUMBER: _ClassVar[int]
    agent_sent_mono_ns: int
    coordinator_received_mono_ns: int
    coordinator_sent_mono_ns: int
    agent_received_mono_ns: int
    def __init__(self, agent_sent_mono_ns: _Optional[int] = ..., coordinator_received_mono_ns: _Optional[int] = ..., coordinator_sent_mono_ns: _Optional[int] = ..., agent_received_mono_ns: _Optional[int] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("session_id", "last_command", "samples", "load")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_COMMAND_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    last_command: int
    samples: _containers.RepeatedCompositeFieldContainer[ClockSample]
    load: HostLoad
    def __init__(self, session_id: _Optional[str] = ..., last_command: _Optional[int] = ..., samples: _Optional[_Iterable[_Union[ClockSample, _Mapping]]] = ..., load: _Optional[_Union[HostLoad, _Mapping]] = ...) -> None: ...

class HostLoad(_message.Message):
    __slots__ = ("cpu_utilisation", "memory_available_bytes", "spool_free_bytes", "spool_bytes", "spool_reports")
    CPU_UTILISATION_FIELD_NUMBER: _ClassVar[int]
    MEMORY_AVAILABLE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SPOOL_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SPOOL_BYTES_FIELD_NUMBER: _ClassVar[int]
    SPOOL_REPORTS_FIELD_NUMBER: _ClassVar[int]
    cpu_utilisation: float
    memory_available_bytes: int
    spool_free_bytes: int
    spool_bytes: int
    spool_reports: int
    def __init__(self, cpu_utilisation: _Optional[float] = ..., memory_available_bytes: _Optional[int] = ..., spool_free_bytes: _Optional[int] = ..., spool_bytes: _Optional[int] = ..., spool_reports: _Optional[int] = ...) -> None: ...

class HeartbeatReply(_message.Message):
    __slots__ = ("known", "received_mono_ns", "sent_mono_ns")
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_MONO_NS_FIELD_NUMBER: _ClassVar[int]
    SENT_MONO_NS_FIELD_NUMBER: _ClassVar[int]
    known: bool
    received_mono_ns: int
    sent_mono_ns: int
    def __init__(self, known: bool = ..., received_mono_ns: _Optional[int] = ..., sent_mono_ns: _Optional[int] = ...) -> None: ...

class IntervalReport(_message.Message):
    __slots__ = ("run_id", "agent", "epoch", "attempt", "sequence", "packed")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    PACKED_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    agent: str
    epoch: int
    attempt: int
    sequence: int
    packed: bytes
    def __init__(self, run_id: _Optional[str] = ..., agent: _Optional[str] = ..., epoch: _Optional[int] = ..., attempt: _Optional[int] = ..., sequence: _Optional[int] = ..., packed: _Optional[bytes] = ...) -> None: ...

class IntervalReports(_message.Message):
    __slots__ = ("reports", "session_id")
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    reports: _containers.RepeatedCompositeFieldContainer[IntervalReport]
    session_id: str
    def __init__(self, reports: _Optional[_Iterable[_Union[IntervalReport, _Mapping]]] = ..., session_id: _Optional[str] = ...) -> None: ...

class IntervalReplies(_message.Message):
    __slots__ = ("replies",)
    REPLIES_FIELD_NUMBER: _ClassVar[int]
    replies: _containers.RepeatedCompositeFieldContainer[ReportReply]
    def __init__(self, replies: _Optional[_Iterable[_Union[ReportReply, _Mapping]]] = ...) -> None: ...

class ProgressReport(_message.Message):
    __slots__ = ("run_id", "agent", "epoch", "ready", "started", "finished", "failed", "cleaning_up", "attempt")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    CLEANING_UP_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    agent: str
    epoch: int
    ready: AgentReady
    started: AgentStarted
    finished: AgentFinished
    failed: _common_pb2.Failure
    cleaning_up: _common_pb2.CleaningUp
    attempt: int
    def __init__(self, run_id: _Optional[str] = ..., agent: _Optional[str] = ..., epoch: _Optional[int] = ..., ready: _Optional[_Union[AgentReady, _Mapping]] = ..., started: _Optional[_Union[AgentStarted, _Mapping]] = ..., finished: _Optional[_Union[AgentFinished, _Mapping]] = ..., failed: _Optional[_Union[_common_pb2.Failure, _Mapping]] = ..., cleaning_up: _Optional[_Union[_common_pb2.CleaningUp, _Mapping]] = ..., attempt: _Optional[int] = ...) -> None: ...

class AgentReady(_message.Message):
    __slots__ = ("facts_json",)
    FACTS_JSON_FIELD_NUMBER: _ClassVar[int]
    facts_json: str
    def __init__(self, facts_json: _Optional[str] = ...) -> None: ...

class AgentStarted(_message.Message):
    __slots__ = ("start_error_ns",)
    START_ERROR_NS_FIELD_NUMBER: _ClassVar[int]
    start_error_ns: int
    def __init__(self, start_error_ns: _Optional[int] = ...) -> None: ...

class AgentFinished(_message.Message):
    __slots__ = ("early_reason", "interval_count", "facts_json")
    EARLY_REASON_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_COUNT_FIELD_NUMBER: _ClassVar[int]
    FACTS_JSON_FIELD_NUMBER: _ClassVar[int]
    early_reason: str
    interval_count: int
    facts_json: str
    def __init__(self, early_reason: _Optional[str] = ..., interval_count: _Optional[int] = ..., facts_json: _Optional[str] = ...) -> None: ...

class SpoolEntry(_message.Message):
    __slots__ = ("interval", "progress", "monitor", "store_id")
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    MONITOR_FIELD_NUMBER: _ClassVar[int]
    STORE_ID_FIELD_NUMBER: _ClassVar[int]
    interval: IntervalReport
    progress: ProgressReport
    monitor: _monitor_pb2.MonitorReport
    store_id: str
    def __init__(self, interval: _Optional[_Union[IntervalReport, _Mapping]] = ..., progress: _Optional[_Union[ProgressReport, _Mapping]] = ..., monitor: _Optional[_Union[_monitor_pb2.MonitorReport, _Mapping]] = ..., store_id: _Optional[str] = ...) -> None: ...

class ReportReply(_message.Message):
    __slots__ = ("status", "detail")
    class Status(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATUS_UNSPECIFIED: _ClassVar[ReportReply.Status]
        STATUS_COMMITTED: _ClassVar[ReportReply.Status]
        STATUS_DUPLICATE: _ClassVar[ReportReply.Status]
        STATUS_REFUSED: _ClassVar[ReportReply.Status]
    STATUS_UNSPECIFIED: ReportReply.Status
    STATUS_COMMITTED: ReportReply.Status
    STATUS_DUPLICATE: ReportReply.Status
    STATUS_REFUSED: ReportReply.Status
    STATUS_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    status: ReportReply.Status
    detail: str
    def __init__(self, status: _Optional[_Union[ReportReply.Status, str]] = ..., detail: _Optional[str] = ...) -> None: ...

class LeaveRequest(_message.Message):
    __slots__ = ("session_id", "reason")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    reason: str
    def __init__(self, session_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class LeaveReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
