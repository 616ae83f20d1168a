from ldapslam.proto import bounds_pb2 as _bounds_pb2
from ldapslam.proto import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MonitorRequest(_message.Message):
    __slots__ = ("prepare", "start", "conclude")
    PREPARE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    CONCLUDE_FIELD_NUMBER: _ClassVar[int]
    prepare: PrepareMonitor
    start: StartMonitor
    conclude: ConcludeMonitor
    def __init__(self, prepare: _Optional[_Union[PrepareMonitor, _Mapping]] = ..., start: _Optional[_Union[StartMonitor, _Mapping]] = ..., conclude: _Optional[_Union[ConcludeMonitor, _Mapping]] = ...) -> None: ...

class PrepareMonitor(_message.Message):
    __slots__ = ("run", "agent", "files_folder", "limits_json")
    RUN_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    FILES_FOLDER_FIELD_NUMBER: _ClassVar[int]
    LIMITS_JSON_FIELD_NUMBER: _ClassVar[int]
    run: _common_pb2.RunAssignment
    agent: str
    files_folder: str
    limits_json: str
    def __init__(self, run: _Optional[_Union[_common_pb2.RunAssignment, _Mapping]] = ..., agent: _Optional[str] = ..., files_folder: _Optional[str] = ..., limits_json: _Optional[str] = ...) -> None: ...

class StartMonitor(_message.Message):
    __slots__ = ("t0_mono_ns",)
    T0_MONO_NS_FIELD_NUMBER: _ClassVar[int]
    t0_mono_ns: int
    def __init__(self, t0_mono_ns: _Optional[int] = ...) -> None: ...

class ConcludeMonitor(_message.Message):
    __slots__ = ("verify",)
    VERIFY_FIELD_NUMBER: _ClassVar[int]
    verify: bool
    def __init__(self, verify: bool = ...) -> None: ...

class MonitorEvent(_message.Message):
    __slots__ = ("ready", "samples", "finished", "failed")
    READY_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    ready: MonitorReady
    samples: MonitorSamples
    finished: MonitorFinished
    failed: _common_pb2.Failure
    def __init__(self, ready: _Optional[_Union[MonitorReady, _Mapping]] = ..., samples: _Optional[_Union[MonitorSamples, _Mapping]] = ..., finished: _Optional[_Union[MonitorFinished, _Mapping]] = ..., failed: _Optional[_Union[_common_pb2.Failure, _Mapping]] = ...) -> None: ...

class MonitorReady(_message.Message):
    __slots__ = ("monitors", "facts_json")
    MONITORS_FIELD_NUMBER: _ClassVar[int]
    FACTS_JSON_FIELD_NUMBER: _ClassVar[int]
    monitors: _containers.RepeatedCompositeFieldContainer[MonitorDescription]
    facts_json: str
    def __init__(self, monitors: _Optional[_Iterable[_Union[MonitorDescription, _Mapping]]] = ..., facts_json: _Optional[str] = ...) -> None: ...

class MonitorDescription(_message.Message):
    __slots__ = ("name", "metrics", "facts_json")
    NAME_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    FACTS_JSON_FIELD_NUMBER: _ClassVar[int]
    name: str
    metrics: _containers.RepeatedCompositeFieldContainer[MonitorMetric]
    facts_json: str
    def __init__(self, name: _Optional[str] = ..., metrics: _Optional[_Iterable[_Union[MonitorMetric, _Mapping]]] = ..., facts_json: _Optional[str] = ...) -> None: ...

class MonitorMetric(_message.Message):
    __slots__ = ("name", "unit", "is_counter")
    NAME_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    IS_COUNTER_FIELD_NUMBER: _ClassVar[int]
    name: str
    unit: str
    is_counter: bool
    def __init__(self, name: _Optional[str] = ..., unit: _Optional[str] = ..., is_counter: bool = ...) -> None: ...

class MonitorSamples(_message.Message):
    __slots__ = ("samples",)
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    samples: _containers.RepeatedCompositeFieldContainer[MonitorSample]
    def __init__(self, samples: _Optional[_Iterable[_Union[MonitorSample, _Mapping]]] = ...) -> None: ...

class MonitorSample(_message.Message):
    __slots__ = ("monitor", "at_ns", "took_ns", "values", "failure")
    MONITOR_FIELD_NUMBER: _ClassVar[int]
    AT_NS_FIELD_NUMBER: _ClassVar[int]
    TOOK_NS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    monitor: str
    at_ns: int
    took_ns: int
    values: _containers.RepeatedScalarFieldContainer[float]
    failure: str
    def __init__(self, monitor: _Optional[str] = ..., at_ns: _Optional[int] = ..., took_ns: _Optional[int] = ..., values: _Optional[_Iterable[float]] = ..., failure: _Optional[str] = ...) -> None: ...

class MonitorFinished(_message.Message):
    __slots__ = ("facts_json",)
    FACTS_JSON_FIELD_NUMBER: _ClassVar[int]
    facts_json: str
    def __init__(self, facts_json: _Optional[str] = ...) -> None: ...

class MonitorReport(_message.Message):
    __slots__ = ("run_id", "agent", "epoch", "attempt", "event")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    agent: str
    epoch: int
    attempt: int
    event: MonitorEvent
    def __init__(self, run_id: _Optional[str] = ..., agent: _Optional[str] = ..., epoch: _Optional[int] = ..., attempt: _Optional[int] = ..., event: _Optional[_Union[MonitorEvent, _Mapping]] = ...) -> None: ...
