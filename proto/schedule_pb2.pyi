from ldapslam.proto import bounds_pb2 as _bounds_pb2
from ldapslam.proto import operator_pb2 as _operator_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MisfirePolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MISFIRE_POLICY_SKIP: _ClassVar[MisfirePolicy]
    MISFIRE_POLICY_RUN_ONCE: _ClassVar[MisfirePolicy]

class OverlapPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OVERLAP_POLICY_SKIP: _ClassVar[OverlapPolicy]
    OVERLAP_POLICY_QUEUE: _ClassVar[OverlapPolicy]
    OVERLAP_POLICY_REPLACE: _ClassVar[OverlapPolicy]
MISFIRE_POLICY_SKIP: MisfirePolicy
MISFIRE_POLICY_RUN_ONCE: MisfirePolicy
OVERLAP_POLICY_SKIP: OverlapPolicy
OVERLAP_POLICY_QUEUE: OverlapPolicy
OVERLAP_POLICY_REPLACE: OverlapPolicy

class ScheduleRule(_message.Message):
    __slots__ = ("cron", "every_ns", "time_zone", "from_utc", "until_utc", "misfire", "overlap")
    CRON_FIELD_NUMBER: _ClassVar[int]
    EVERY_NS_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    FROM_UTC_FIELD_NUMBER: _ClassVar[int]
    UNTIL_UTC_FIELD_NUMBER: _ClassVar[int]
    MISFIRE_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_FIELD_NUMBER: _ClassVar[int]
    cron: str
    every_ns: int
    time_zone: str
    from_utc: str
    until_utc: str
    misfire: MisfirePolicy
    overlap: OverlapPolicy
    def __init__(self, cron: _Optional[str] = ..., every_ns: _Optional[int] = ..., time_zone: _Optional[str] = ..., from_utc: _Optional[str] = ..., until_utc: _Optional[str] = ..., misfire: _Optional[_Union[MisfirePolicy, str]] = ..., overlap: _Optional[_Union[OverlapPolicy, str]] = ...) -> None: ...

class CreateScheduleRequest(_message.Message):
    __slots__ = ("name", "job", "rule", "paused")
    NAME_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    name: str
    job: _operator_pb2.SubmitJobRequest
    rule: ScheduleRule
    paused: bool
    def __init__(self, name: _Optional[str] = ..., job: _Optional[_Union[_operator_pb2.SubmitJobRequest, _Mapping]] = ..., rule: _Optional[_Union[ScheduleRule, _Mapping]] = ..., paused: bool = ...) -> None: ...

class ScheduleStatus(_message.Message):
    __slots__ = ("schedule_id", "name", "job_name", "rule", "state", "created_utc", "created_by", "next_utc", "fires")
    SCHEDULE_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    JOB_NAME_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CREATED_UTC_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    NEXT_UTC_FIELD_NUMBER: _ClassVar[int]
    FIRES_FIELD_NUMBER: _ClassVar[int]
    schedule_id: str
    name: str
    job_name: str
    rule: ScheduleRule
    state: str
    created_utc: str
    created_by: str
    next_utc: _containers.RepeatedScalarFieldContainer[str]
    fires: _containers.RepeatedCompositeFieldContainer[ScheduleFire]
    def __init__(self, schedule_id: _Optional[str] = ..., name: _Optional[str] = ..., job_name: _Optional[str] = ..., rule: _Optional[_Union[ScheduleRule, _Mapping]] = ..., state: _Optional[str] = ..., created_utc: _Optional[str] = ..., created_by: _Optional[str] = ..., next_utc: _Optional[_Iterable[str]] = ..., fires: _Optional[_Iterable[_Union[ScheduleFire, _Mapping]]] = ...) -> None: ...

class ScheduleFire(_message.Message):
    __slots__ = ("due_utc", "at_utc", "outcome", "run_ids", "detail")
    DUE_UTC_FIELD_NUMBER: _ClassVar[int]
    AT_UTC_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    RUN_IDS_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    due_utc: str
    at_utc: str
    outcome: str
    run_ids: _containers.RepeatedScalarFieldContainer[str]
    detail: str
    def __init__(self, due_utc: _Optional[str] = ..., at_utc: _Optional[str] = ..., outcome: _Optional[str] = ..., run_ids: _Optional[_Iterable[str]] = ..., detail: _Optional[str] = ...) -> None: ...

class ListSchedulesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListSchedulesReply(_message.Message):
    __slots__ = ("schedules",)
    SCHEDULES_FIELD_NUMBER: _ClassVar[int]
    schedules: _containers.RepeatedCompositeFieldContainer[ScheduleStatus]
    def __init__(self, schedules: _Optional[_Iterable[_Union[ScheduleStatus, _Mapping]]] = ...) -> None: ...

class ChangeScheduleRequest(_message.Message):
    __slots__ = ("schedule", "change", "changed_by")
    class Change(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CHANGE_UNSPECIFIED: _ClassVar[ChangeScheduleRequest.Change]
        CHANGE_PAUSE: _ClassVar[ChangeScheduleRequest.Change]
        CHANGE_RESUME: _ClassVar[ChangeScheduleRequest.Change]
    CHANGE_UNSPECIFIED: ChangeScheduleRequest.Change
    CHANGE_PAUSE: ChangeScheduleRequest.Change
    CHANGE_RESUME: ChangeScheduleRequest.Change
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    CHANGED_BY_FIELD_NUMBER: _ClassVar[int]
    schedule: str
    change: ChangeScheduleRequest.Change
    changed_by: str
    def __init__(self, schedule: _Optional[str] = ..., change: _Optional[_Union[ChangeScheduleRequest.Change, str]] = ..., changed_by: _Optional[str] = ...) -> None: ...

class RemoveScheduleRequest(_message.Message):
    __slots__ = ("schedule", "removed_by")
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    REMOVED_BY_FIELD_NUMBER: _ClassVar[int]
    schedule: str
    removed_by: str
    def __init__(self, schedule: _Optional[str] = ..., removed_by: _Optional[str] = ...) -> None: ...

class RemoveScheduleReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AuditEntry(_message.Message):
    __slots__ = ("number", "at_utc", "who", "role", "peer", "action", "subject", "detail")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    AT_UTC_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    number: int
    at_utc: str
    who: str
    role: str
    peer: str
    action: str
    subject: str
    detail: str
    def __init__(self, number: _Optional[int] = ..., at_utc: _Optional[str] = ..., who: _Optional[str] = ..., role: _Optional[str] = ..., peer: _Optional[str] = ..., action: _Optional[str] = ..., subject: _Optional[str] = ..., detail: _Optional[str] = ...) -> None: ...

class ListAuditRequest(_message.Message):
    __slots__ = ("limit",)
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    limit: int
    def __init__(self, limit: _Optional[int] = ...) -> None: ...

class ListAuditReply(_message.Message):
    __slots__ = ("entries",)
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[AuditEntry]
    def __init__(self, entries: _Optional[_Iterable[_Union[AuditEntry, _Mapping]]] = ...) -> None: ...
