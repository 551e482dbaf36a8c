import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import field_mask_pb2 as _field_mask_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CurationAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CURATION_ACTION_UNSPECIFIED: _ClassVar[CurationAction]
    CURATION_ACTION_ADD: _ClassVar[CurationAction]
    CURATION_ACTION_UPDATE: _ClassVar[CurationAction]
    CURATION_ACTION_SUPERSEDE: _ClassVar[CurationAction]
    CURATION_ACTION_NOOP: _ClassVar[CurationAction]
CURATION_ACTION_UNSPECIFIED: CurationAction
CURATION_ACTION_ADD: CurationAction
CURATION_ACTION_UPDATE: CurationAction
CURATION_ACTION_SUPERSEDE: CurationAction
CURATION_ACTION_NOOP: CurationAction

class Link(_message.Message):
    __slots__ = ("target", "relation")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    RELATION_FIELD_NUMBER: _ClassVar[int]
    target: str
    relation: str
    def __init__(self, target: _Optional[str] = ..., relation: _Optional[str] = ...) -> None: ...

class Memory(_message.Message):
    __slots__ = ("id", "namespace", "content", "title", "expanded_keywords", "tags", "category", "metadata", "importance", "sensitive", "source", "created_at", "updated_at", "occurred_at", "expires_at", "supersedes", "superseded_by", "revision", "idempotency_key", "links", "thread", "position")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    EXPANDED_KEYWORDS_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    CATEGORY_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    IMPORTANCE_FIELD_NUMBER: _ClassVar[int]
    SENSITIVE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    OCCURRED_AT_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    SUPERSEDES_FIELD_NUMBER: _ClassVar[int]
    SUPERSEDED_BY_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    THREAD_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    id: str
    namespace: str
    content: str
    title: str
    expanded_keywords: _containers.RepeatedScalarFieldContainer[str]
    tags: _containers.RepeatedScalarFieldContainer[str]
    category: str
    metadata: _struct_pb2.Struct
    importance: float
    sensitive: bool
    source: str
    created_at: _timestamp_pb2.Timestamp
    updated_at: _timestamp_pb2.Timestamp
    occurred_at: _timestamp_pb2.Timestamp
    expires_at: _timestamp_pb2.Timestamp
    supersedes: str
    superseded_by: str
    revision: int
    idempotency_key: str
    links: _containers.RepeatedCompositeFieldContainer[Link]
    thread: str
    position: int
    def __init__(self, id: _Optional[str] = ..., namespace: _Optional[str] = ..., content: _Optional[str] = ..., title: _Optional[str] = ..., expanded_keywords: _Optional[_Iterable[str]] = ..., tags: _Optional[_Iterable[str]] = ..., category: _Optional[str] = ..., metadata: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., importance: _Optional[float] = ..., sensitive: bool = ..., source: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., updated_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., occurred_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., supersedes: _Optional[str] = ..., superseded_by: _Optional[str] = ..., revision: _Optional[int] = ..., idempotency_key: _Optional[str] = ..., links: _Optional[_Iterable[_Union[Link, _Mapping]]] = ..., thread: _Optional[str] = ..., position: _Optional[int] = ...) -> None: ...

class Filter(_message.Message):
    __slots__ = ("tags_any", "tags_all", "categories", "created_from", "created_before", "metadata", "include_superseded", "occurred_from", "occurred_before")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _struct_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ...) -> None: ...
    TAGS_ANY_FIELD_NUMBER: _ClassVar[int]
    TAGS_ALL_FIELD_NUMBER: _ClassVar[int]
    CATEGORIES_FIELD_NUMBER: _ClassVar[int]
    CREATED_FROM_FIELD_NUMBER: _ClassVar[int]
    CREATED_BEFORE_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_SUPERSEDED_FIELD_NUMBER: _ClassVar[int]
    OCCURRED_FROM_FIELD_NUMBER: _ClassVar[int]
    OCCURRED_BEFORE_FIELD_NUMBER: _ClassVar[int]
    tags_any: _containers.RepeatedScalarFieldContainer[str]
    tags_all: _containers.RepeatedScalarFieldContainer[str]
    categories: _containers.RepeatedScalarFieldContainer[str]
    created_from: _timestamp_pb2.Timestamp
    created_before: _timestamp_pb2.Timestamp
    metadata: _containers.MessageMap[str, _struct_pb2.Value]
    include_superseded: bool
    occurred_from: _timestamp_pb2.Timestamp
    occurred_before: _timestamp_pb2.Timestamp
    def __init__(self, tags_any: _Optional[_Iterable[str]] = ..., tags_all: _Optional[_Iterable[str]] = ..., categories: _Optional[_Iterable[str]] = ..., created_from: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_before: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., metadata: _Optional[_Mapping[str, _struct_pb2.Value]] = ..., include_superseded: bool = ..., occurred_from: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., occurred_before: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class RememberRequest(_message.Message):
    __slots__ = ("memory",)
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    memory: Memory
    def __init__(self, memory: _Optional[_Union[Memory, _Mapping]] = ...) -> None: ...

class RememberResponse(_message.Message):
    __slots__ = ("memory", "stored", "revision_token")
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    STORED_FIELD_NUMBER: _ClassVar[int]
    REVISION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    memory: Memory
    stored: bool
    revision_token: str
    def __init__(self, memory: _Optional[_Union[Memory, _Mapping]] = ..., stored: bool = ..., revision_token: _Optional[str] = ...) -> None: ...

class UpdateRequest(_message.Message):
    __slots__ = ("namespace", "id", "memory", "update_mask", "expected_revision")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    id: str
    memory: Memory
    update_mask: _field_mask_pb2.FieldMask
    expected_revision: int
    def __init__(self, namespace: _Optional[str] = ..., id: _Optional[str] = ..., memory: _Optional[_Union[Memory, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., expected_revision: _Optional[int] = ...) -> None: ...

class UpdateResponse(_message.Message):
    __slots__ = ("memory", "revision_token")
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    REVISION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    memory: Memory
    revision_token: str
    def __init__(self, memory: _Optional[_Union[Memory, _Mapping]] = ..., revision_token: _Optional[str] = ...) -> None: ...

class SupersedeRequest(_message.Message):
    __slots__ = ("id", "replacement", "expected_revision")
    ID_FIELD_NUMBER: _ClassVar[int]
    REPLACEMENT_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    id: str
    replacement: Memory
    expected_revision: int
    def __init__(self, id: _Optional[str] = ..., replacement: _Optional[_Union[Memory, _Mapping]] = ..., expected_revision: _Optional[int] = ...) -> None: ...

class SupersedeResponse(_message.Message):
    __slots__ = ("memory", "superseded", "revision_token")
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    SUPERSEDED_FIELD_NUMBER: _ClassVar[int]
    REVISION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    memory: Memory
    superseded: Memory
    revision_token: str
    def __init__(self, memory: _Optional[_Union[Memory, _Mapping]] = ..., superseded: _Optional[_Union[Memory, _Mapping]] = ..., revision_token: _Optional[str] = ...) -> None: ...

class ForgetRequest(_message.Message):
    __slots__ = ("namespace", "ids")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, namespace: _Optional[str] = ..., ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ForgetResponse(_message.Message):
    __slots__ = ("forgotten",)
    FORGOTTEN_FIELD_NUMBER: _ClassVar[int]
    forgotten: int
    def __init__(self, forgotten: _Optional[int] = ...) -> None: ...

class GetRequest(_message.Message):
    __slots__ = ("namespace", "ids", "query", "surroundings", "filter")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    SURROUNDINGS_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    ids: _containers.RepeatedScalarFieldContainer[str]
    query: str
    surroundings: int
    filter: Filter
    def __init__(self, namespace: _Optional[str] = ..., ids: _Optional[_Iterable[str]] = ..., query: _Optional[str] = ..., surroundings: _Optional[int] = ..., filter: _Optional[_Union[Filter, _Mapping]] = ...) -> None: ...

class GetResponse(_message.Message):
    __slots__ = ("memories", "matches", "surroundings")
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    MATCHES_FIELD_NUMBER: _ClassVar[int]
    SURROUNDINGS_FIELD_NUMBER: _ClassVar[int]
    memories: _containers.RepeatedCompositeFieldContainer[Memory]
    matches: _containers.RepeatedCompositeFieldContainer[Matches]
    surroundings: _containers.RepeatedCompositeFieldContainer[Surroundings]
    def __init__(self, memories: _Optional[_Iterable[_Union[Memory, _Mapping]]] = ..., matches: _Optional[_Iterable[_Union[Matches, _Mapping]]] = ..., surroundings: _Optional[_Iterable[_Union[Surroundings, _Mapping]]] = ...) -> None: ...

class Surroundings(_message.Message):
    __slots__ = ("before", "after")
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    before: _containers.RepeatedCompositeFieldContainer[Memory]
    after: _containers.RepeatedCompositeFieldContainer[Memory]
    def __init__(self, before: _Optional[_Iterable[_Union[Memory, _Mapping]]] = ..., after: _Optional[_Iterable[_Union[Memory, _Mapping]]] = ...) -> None: ...

class Matches(_message.Message):
    __slots__ = ("title", "content")
    TITLE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    title: _containers.RepeatedCompositeFieldContainer[TextRange]
    content: _containers.RepeatedCompositeFieldContainer[TextRange]
    def __init__(self, title: _Optional[_Iterable[_Union[TextRange, _Mapping]]] = ..., content: _Optional[_Iterable[_Union[TextRange, _Mapping]]] = ...) -> None: ...

class TextRange(_message.Message):
    __slots__ = ("start", "end")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    start: int
    end: int
    def __init__(self, start: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class ListRequest(_message.Message):
    __slots__ = ("namespace", "filter", "page_size", "page_token")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    filter: Filter
    page_size: int
    page_token: str
    def __init__(self, namespace: _Optional[str] = ..., filter: _Optional[_Union[Filter, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListResponse(_message.Message):
    __slots__ = ("memories", "next_page_token")
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    memories: _containers.RepeatedCompositeFieldContainer[Memory]
    next_page_token: str
    def __init__(self, memories: _Optional[_Iterable[_Union[Memory, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ImportRequest(_message.Message):
    __slots__ = ("memories", "dry_run", "return_ids")
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    RETURN_IDS_FIELD_NUMBER: _ClassVar[int]
    memories: _containers.RepeatedCompositeFieldContainer[Memory]
    dry_run: bool
    return_ids: bool
    def __init__(self, memories: _Optional[_Iterable[_Union[Memory, _Mapping]]] = ..., dry_run: bool = ..., return_ids: bool = ...) -> None: ...

class ImportResponse(_message.Message):
    __slots__ = ("stored", "unchanged", "revision_token", "ids")
    STORED_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    REVISION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    stored: int
    unchanged: int
    revision_token: str
    ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, stored: _Optional[int] = ..., unchanged: _Optional[int] = ..., revision_token: _Optional[str] = ..., ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ExportRequest(_message.Message):
    __slots__ = ("namespace",)
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    def __init__(self, namespace: _Optional[str] = ...) -> None: ...

class ExportResponse(_message.Message):
    __slots__ = ("memories",)
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    memories: _containers.RepeatedCompositeFieldContainer[Memory]
    def __init__(self, memories: _Optional[_Iterable[_Union[Memory, _Mapping]]] = ...) -> None: ...

class GetNamespaceRequest(_message.Message):
    __slots__ = ("namespace", "statistics")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STATISTICS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    statistics: bool
    def __init__(self, namespace: _Optional[str] = ..., statistics: bool = ...) -> None: ...

class GetNamespaceResponse(_message.Message):
    __slots__ = ("namespace", "created_at", "memories", "statistics", "revision")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    STATISTICS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    created_at: _timestamp_pb2.Timestamp
    memories: int
    statistics: NamespaceStatistics
    revision: str
    def __init__(self, namespace: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., memories: _Optional[int] = ..., statistics: _Optional[_Union[NamespaceStatistics, _Mapping]] = ..., revision: _Optional[str] = ...) -> None: ...

class NamespaceStatistics(_message.Message):
    __slots__ = ("live", "superseded", "expired", "sensitive", "bytes", "indexes")
    LIVE_FIELD_NUMBER: _ClassVar[int]
    SUPERSEDED_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_FIELD_NUMBER: _ClassVar[int]
    SENSITIVE_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    INDEXES_FIELD_NUMBER: _ClassVar[int]
    live: int
    superseded: int
    expired: int
    sensitive: int
    bytes: int
    indexes: _containers.RepeatedCompositeFieldContainer[IndexLag]
    def __init__(self, live: _Optional[int] = ..., superseded: _Optional[int] = ..., expired: _Optional[int] = ..., sensitive: _Optional[int] = ..., bytes: _Optional[int] = ..., indexes: _Optional[_Iterable[_Union[IndexLag, _Mapping]]] = ...) -> None: ...

class IndexLag(_message.Message):
    __slots__ = ("index", "pending", "dead", "lag")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    DEAD_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    index: str
    pending: int
    dead: int
    lag: _duration_pb2.Duration
    def __init__(self, index: _Optional[str] = ..., pending: _Optional[int] = ..., dead: _Optional[int] = ..., lag: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ListNamespacesRequest(_message.Message):
    __slots__ = ("prefix", "page_size", "page_token")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    page_size: int
    page_token: str
    def __init__(self, prefix: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListNamespacesResponse(_message.Message):
    __slots__ = ("namespaces", "next_page_token")
    class Namespace(_message.Message):
        __slots__ = ("namespace", "created_at")
        NAMESPACE_FIELD_NUMBER: _ClassVar[int]
        CREATED_AT_FIELD_NUMBER: _ClassVar[int]
        namespace: str
        created_at: _timestamp_pb2.Timestamp
        def __init__(self, namespace: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...
    NAMESPACES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    namespaces: _containers.RepeatedCompositeFieldContainer[ListNamespacesResponse.Namespace]
    next_page_token: str
    def __init__(self, namespaces: _Optional[_Iterable[_Union[ListNamespacesResponse.Namespace, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class RenameNamespaceRequest(_message.Message):
    __slots__ = ("namespace", "new_name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NEW_NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    new_name: str
    def __init__(self, namespace: _Optional[str] = ..., new_name: _Optional[str] = ...) -> None: ...

class RenameNamespaceResponse(_message.Message):
    __slots__ = ("memories",)
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    memories: int
    def __init__(self, memories: _Optional[int] = ...) -> None: ...

class DeleteNamespaceRequest(_message.Message):
    __slots__ = ("namespace",)
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    def __init__(self, namespace: _Optional[str] = ...) -> None: ...

class DeleteNamespaceResponse(_message.Message):
    __slots__ = ("forgotten",)
    FORGOTTEN_FIELD_NUMBER: _ClassVar[int]
    forgotten: int
    def __init__(self, forgotten: _Optional[int] = ...) -> None: ...

class Decision(_message.Message):
    __slots__ = ("id", "namespace", "memory_id", "memory_revision", "action", "target_id", "model", "decided_at", "reverted_at", "previous_content")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    MEMORY_REVISION_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    TARGET_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    DECIDED_AT_FIELD_NUMBER: _ClassVar[int]
    REVERTED_AT_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_CONTENT_FIELD_NUMBER: _ClassVar[int]
    id: str
    namespace: str
    memory_id: str
    memory_revision: int
    action: CurationAction
    target_id: str
    model: str
    decided_at: _timestamp_pb2.Timestamp
    reverted_at: _timestamp_pb2.Timestamp
    previous_content: str
    def __init__(self, id: _Optional[str] = ..., namespace: _Optional[str] = ..., memory_id: _Optional[str] = ..., memory_revision: _Optional[int] = ..., action: _Optional[_Union[CurationAction, str]] = ..., target_id: _Optional[str] = ..., model: _Optional[str] = ..., decided_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., reverted_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., previous_content: _Optional[str] = ...) -> None: ...

class ListDecisionsRequest(_message.Message):
    __slots__ = ("namespace", "page_size", "page_token", "memory_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    page_size: int
    page_token: str
    memory_id: str
    def __init__(self, namespace: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., memory_id: _Optional[str] = ...) -> None: ...

class ListDecisionsResponse(_message.Message):
    __slots__ = ("decisions", "next_page_token")
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    decisions: _containers.RepeatedCompositeFieldContainer[Decision]
    next_page_token: str
    def __init__(self, decisions: _Optional[_Iterable[_Union[Decision, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class RevertDecisionRequest(_message.Message):
    __slots__ = ("namespace", "id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    id: str
    def __init__(self, namespace: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class RevertDecisionResponse(_message.Message):
    __slots__ = ("decision", "revision_token")
    DECISION_FIELD_NUMBER: _ClassVar[int]
    REVISION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    decision: Decision
    revision_token: str
    def __init__(self, decision: _Optional[_Union[Decision, _Mapping]] = ..., revision_token: _Optional[str] = ...) -> None: ...
