from ldapslam.proto import bounds_pb2 as _bounds_pb2
from ldapslam.proto import common_pb2 as _common_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EngineRequest(_message.Message):
    __slots__ = ("prepare", "start", "stop")
    PREPARE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    prepare: PrepareEngine
    start: StartEngine
    stop: StopEngine
    def __init__(self, prepare: _Optional[_Union[PrepareEngine, _Mapping]] = ..., start: _Optional[_Union[StartEngine, _Mapping]] = ..., stop: _Optional[_Union[StopEngine, _Mapping]] = ...) -> None: ...

class PrepareEngine(_message.Message):
    __slots__ = ("run", "agent", "workers", "realtime", "files_folder", "ledger_folder", "limits_json")
    RUN_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    REALTIME_FIELD_NUMBER: _ClassVar[int]
    FILES_FOLDER_FIELD_NUMBER: _ClassVar[int]
    LEDGER_FOLDER_FIELD_NUMBER: _ClassVar[int]
    LIMITS_JSON_FIELD_NUMBER: _ClassVar[int]
    run: _common_pb2.RunAssignment
    agent: str
    workers: int
    realtime: bool
    files_folder: str
    ledger_folder: str
    limits_json: str
    def __init__(self, run: _Optional[_Union[_common_pb2.RunAssignment, _Mapping]] = ..., agent: _Optional[str] = ..., workers: _Optional[int] = ..., realtime: bool = ..., files_folder: _Optional[str] = ..., ledger_folder: _Optional[str] = ..., limits_json: _Optional[str] = ...) -> None: ...

class StartEngine(_message.Message):
    __slots__ = ("t0_mono_ns",)
    T0_MONO_NS_FIELD_NUMBER: _ClassVar[int]
    t0_mono_ns: int
    def __init__(self, t0_mono_ns: _Optional[int] = ...) -> None: ...

class StopEngine(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class EngineEvent(_message.Message):
    __slots__ = ("ready", "started", "snapshot", "finished", "failed", "cleaning_up")
    READY_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    CLEANING_UP_FIELD_NUMBER: _ClassVar[int]
    ready: EngineReady
    started: EngineStarted
    snapshot: _common_pb2.Snapshot
    finished: EngineFinished
    failed: _common_pb2.Failure
    cleaning_up: _common_pb2.CleaningUp
    def __init__(self, ready: _Optional[_Union[EngineReady, _Mapping]] = ..., started: _Optional[_Union[EngineStarted, _Mapping]] = ..., snapshot: _Optional[_Union[_common_pb2.Snapshot, _Mapping]] = ..., finished: _Optional[_Union[EngineFinished, _Mapping]] = ..., failed: _Optional[_Union[_common_pb2.Failure, _Mapping]] = ..., cleaning_up: _Optional[_Union[_common_pb2.CleaningUp, _Mapping]] = ...) -> None: ...

class EngineReady(_message.Message):
    __slots__ = ("facts_json", "interval_count", "grace_ns")
    FACTS_JSON_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_COUNT_FIELD_NUMBER: _ClassVar[int]
    GRACE_NS_FIELD_NUMBER: _ClassVar[int]
    facts_json: str
    interval_count: int
    grace_ns: int
    def __init__(self, facts_json: _Optional[str] = ..., interval_count: _Optional[int] = ..., grace_ns: _Optional[int] = ...) -> None: ...

class EngineStarted(_message.Message):
    __slots__ = ("start_error_ns",)
    START_ERROR_NS_FIELD_NUMBER: _ClassVar[int]
    start_error_ns: int
    def __init__(self, start_error_ns: _Optional[int] = ...) -> None: ...

class EngineFinished(_message.Message):
    __slots__ = ("facts_json", "early_reason")
    FACTS_JSON_FIELD_NUMBER: _ClassVar[int]
    EARLY_REASON_FIELD_NUMBER: _ClassVar[int]
    facts_json: str
    early_reason: str
    def __init__(self, facts_json: _Optional[str] = ..., early_reason: _Optional[str] = ...) -> None: ...
