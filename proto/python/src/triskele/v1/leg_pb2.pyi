import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from triskele.v1 import memory_pb2 as _memory_pb2
from triskele.v1 import trace_pb2 as _trace_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LegState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LEG_STATE_UNSPECIFIED: _ClassVar[LegState]
    LEG_STATE_OK: _ClassVar[LegState]
    LEG_STATE_FALLBACK: _ClassVar[LegState]
    LEG_STATE_TRUNCATED: _ClassVar[LegState]
    LEG_STATE_ABSTAINED: _ClassVar[LegState]
    LEG_STATE_TIMED_OUT: _ClassVar[LegState]
    LEG_STATE_FAILED: _ClassVar[LegState]
    LEG_STATE_SKIPPED: _ClassVar[LegState]

class ScoreKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SCORE_KIND_UNSPECIFIED: _ClassVar[ScoreKind]
    SCORE_KIND_TS_RANK: _ClassVar[ScoreKind]
    SCORE_KIND_BM25: _ClassVar[ScoreKind]
    SCORE_KIND_COSINE: _ClassVar[ScoreKind]
    SCORE_KIND_HOP_DECAY: _ClassVar[ScoreKind]
    SCORE_KIND_PAGERANK: _ClassVar[ScoreKind]

class Traversal(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TRAVERSAL_UNSPECIFIED: _ClassVar[Traversal]
    TRAVERSAL_HOP_DECAY: _ClassVar[Traversal]
    TRAVERSAL_PAGERANK: _ClassVar[Traversal]

class Scorer(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SCORER_UNSPECIFIED: _ClassVar[Scorer]
    SCORER_BM25: _ClassVar[Scorer]
    SCORER_TS_RANK: _ClassVar[Scorer]
LEG_STATE_UNSPECIFIED: LegState
LEG_STATE_OK: LegState
LEG_STATE_FALLBACK: LegState
LEG_STATE_TRUNCATED: LegState
LEG_STATE_ABSTAINED: LegState
LEG_STATE_TIMED_OUT: LegState
LEG_STATE_FAILED: LegState
LEG_STATE_SKIPPED: LegState
SCORE_KIND_UNSPECIFIED: ScoreKind
SCORE_KIND_TS_RANK: ScoreKind
SCORE_KIND_BM25: ScoreKind
SCORE_KIND_COSINE: ScoreKind
SCORE_KIND_HOP_DECAY: ScoreKind
SCORE_KIND_PAGERANK: ScoreKind
TRAVERSAL_UNSPECIFIED: Traversal
TRAVERSAL_HOP_DECAY: Traversal
TRAVERSAL_PAGERANK: Traversal
SCORER_UNSPECIFIED: Scorer
SCORER_BM25: Scorer
SCORER_TS_RANK: Scorer

class SearchRequest(_message.Message):
    __slots__ = ("namespace", "query", "vector", "filter", "depth", "min_score", "return_vector", "return_spans", "at_least", "scorer", "mark_exact", "traversal", "as_of", "explain", "text_of", "borrow")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    VECTOR_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    MIN_SCORE_FIELD_NUMBER: _ClassVar[int]
    RETURN_VECTOR_FIELD_NUMBER: _ClassVar[int]
    RETURN_SPANS_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    SCORER_FIELD_NUMBER: _ClassVar[int]
    MARK_EXACT_FIELD_NUMBER: _ClassVar[int]
    TRAVERSAL_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    EXPLAIN_FIELD_NUMBER: _ClassVar[int]
    TEXT_OF_FIELD_NUMBER: _ClassVar[int]
    BORROW_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    query: str
    vector: _containers.RepeatedScalarFieldContainer[float]
    filter: _memory_pb2.Filter
    depth: int
    min_score: float
    return_vector: bool
    return_spans: bool
    at_least: str
    scorer: Scorer
    mark_exact: bool
    traversal: Traversal
    as_of: _timestamp_pb2.Timestamp
    explain: bool
    text_of: str
    borrow: float
    def __init__(self, namespace: _Optional[str] = ..., query: _Optional[str] = ..., vector: _Optional[_Iterable[float]] = ..., filter: _Optional[_Union[_memory_pb2.Filter, _Mapping]] = ..., depth: _Optional[int] = ..., min_score: _Optional[float] = ..., return_vector: bool = ..., return_spans: bool = ..., at_least: _Optional[str] = ..., scorer: _Optional[_Union[Scorer, str]] = ..., mark_exact: bool = ..., traversal: _Optional[_Union[Traversal, str]] = ..., as_of: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., explain: bool = ..., text_of: _Optional[str] = ..., borrow: _Optional[float] = ...) -> None: ...

class PathStep(_message.Message):
    __slots__ = ("relation", "concept", "memory")
    RELATION_FIELD_NUMBER: _ClassVar[int]
    CONCEPT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    relation: str
    concept: str
    memory: str
    def __init__(self, relation: _Optional[str] = ..., concept: _Optional[str] = ..., memory: _Optional[str] = ...) -> None: ...

class LegHit(_message.Message):
    __slots__ = ("id", "rank", "score", "importance", "created_at", "exact", "path", "concepts", "matched", "own_score")
    ID_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    IMPORTANCE_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    CONCEPTS_FIELD_NUMBER: _ClassVar[int]
    MATCHED_FIELD_NUMBER: _ClassVar[int]
    OWN_SCORE_FIELD_NUMBER: _ClassVar[int]
    id: str
    rank: int
    score: float
    importance: float
    created_at: _timestamp_pb2.Timestamp
    exact: bool
    path: _containers.RepeatedCompositeFieldContainer[PathStep]
    concepts: int
    matched: float
    own_score: float
    def __init__(self, id: _Optional[str] = ..., rank: _Optional[int] = ..., score: _Optional[float] = ..., importance: _Optional[float] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., exact: bool = ..., path: _Optional[_Iterable[_Union[PathStep, _Mapping]]] = ..., concepts: _Optional[int] = ..., matched: _Optional[float] = ..., own_score: _Optional[float] = ...) -> None: ...

class SearchResponse(_message.Message):
    __slots__ = ("hits", "state", "reason", "score_kind", "spent", "vector", "spans", "behind", "stale", "coverage", "age", "away", "attainable", "memories", "terms")
    HITS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SCORE_KIND_FIELD_NUMBER: _ClassVar[int]
    SPENT_FIELD_NUMBER: _ClassVar[int]
    VECTOR_FIELD_NUMBER: _ClassVar[int]
    SPANS_FIELD_NUMBER: _ClassVar[int]
    BEHIND_FIELD_NUMBER: _ClassVar[int]
    STALE_FIELD_NUMBER: _ClassVar[int]
    COVERAGE_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    AWAY_FIELD_NUMBER: _ClassVar[int]
    ATTAINABLE_FIELD_NUMBER: _ClassVar[int]
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    TERMS_FIELD_NUMBER: _ClassVar[int]
    hits: _containers.RepeatedCompositeFieldContainer[LegHit]
    state: LegState
    reason: str
    score_kind: ScoreKind
    spent: _duration_pb2.Duration
    vector: _containers.RepeatedScalarFieldContainer[float]
    spans: _containers.RepeatedCompositeFieldContainer[_trace_pb2.Span]
    behind: int
    stale: bool
    coverage: float
    age: _duration_pb2.Duration
    away: bool
    attainable: float
    memories: int
    terms: int
    def __init__(self, hits: _Optional[_Iterable[_Union[LegHit, _Mapping]]] = ..., state: _Optional[_Union[LegState, str]] = ..., reason: _Optional[str] = ..., score_kind: _Optional[_Union[ScoreKind, str]] = ..., spent: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., vector: _Optional[_Iterable[float]] = ..., spans: _Optional[_Iterable[_Union[_trace_pb2.Span, _Mapping]]] = ..., behind: _Optional[int] = ..., stale: bool = ..., coverage: _Optional[float] = ..., age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., away: bool = ..., attainable: _Optional[float] = ..., memories: _Optional[int] = ..., terms: _Optional[int] = ...) -> None: ...

class ScoreByIdsRequest(_message.Message):
    __slots__ = ("namespace", "query", "vector", "ids", "scorer", "text_of", "filter", "borrow")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    VECTOR_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    SCORER_FIELD_NUMBER: _ClassVar[int]
    TEXT_OF_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    BORROW_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    query: str
    vector: _containers.RepeatedScalarFieldContainer[float]
    ids: _containers.RepeatedScalarFieldContainer[str]
    scorer: Scorer
    text_of: str
    filter: _memory_pb2.Filter
    borrow: float
    def __init__(self, namespace: _Optional[str] = ..., query: _Optional[str] = ..., vector: _Optional[_Iterable[float]] = ..., ids: _Optional[_Iterable[str]] = ..., scorer: _Optional[_Union[Scorer, str]] = ..., text_of: _Optional[str] = ..., filter: _Optional[_Union[_memory_pb2.Filter, _Mapping]] = ..., borrow: _Optional[float] = ...) -> None: ...

class ScoreByIdsResponse(_message.Message):
    __slots__ = ("scores", "score_kind")
    class Score(_message.Message):
        __slots__ = ("id", "score", "own_score")
        ID_FIELD_NUMBER: _ClassVar[int]
        SCORE_FIELD_NUMBER: _ClassVar[int]
        OWN_SCORE_FIELD_NUMBER: _ClassVar[int]
        id: str
        score: float
        own_score: float
        def __init__(self, id: _Optional[str] = ..., score: _Optional[float] = ..., own_score: _Optional[float] = ...) -> None: ...
    SCORES_FIELD_NUMBER: _ClassVar[int]
    SCORE_KIND_FIELD_NUMBER: _ClassVar[int]
    scores: _containers.RepeatedCompositeFieldContainer[ScoreByIdsResponse.Score]
    score_kind: ScoreKind
    def __init__(self, scores: _Optional[_Iterable[_Union[ScoreByIdsResponse.Score, _Mapping]]] = ..., score_kind: _Optional[_Union[ScoreKind, str]] = ...) -> None: ...

class GetIndexStatusRequest(_message.Message):
    __slots__ = ("namespace",)
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    def __init__(self, namespace: _Optional[str] = ...) -> None: ...

class GetIndexStatusResponse(_message.Message):
    __slots__ = ("indexed", "pending", "dead", "lag", "model", "excluded", "standby_lag")
    INDEXED_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    DEAD_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    EXCLUDED_FIELD_NUMBER: _ClassVar[int]
    STANDBY_LAG_FIELD_NUMBER: _ClassVar[int]
    indexed: int
    pending: int
    dead: int
    lag: _duration_pb2.Duration
    model: str
    excluded: int
    standby_lag: _duration_pb2.Duration
    def __init__(self, indexed: _Optional[int] = ..., pending: _Optional[int] = ..., dead: _Optional[int] = ..., lag: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., model: _Optional[str] = ..., excluded: _Optional[int] = ..., standby_lag: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...
