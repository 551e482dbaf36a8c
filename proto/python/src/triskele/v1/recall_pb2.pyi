import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from triskele.v1 import leg_pb2 as _leg_pb2
from triskele.v1 import memory_pb2 as _memory_pb2
from triskele.v1 import trace_pb2 as _trace_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SortBy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SORT_BY_UNSPECIFIED: _ClassVar[SortBy]
    SORT_BY_RELEVANCE: _ClassVar[SortBy]
    SORT_BY_IMPORTANCE: _ClassVar[SortBy]
    SORT_BY_RECENCY: _ClassVar[SortBy]

class FusionMethod(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FUSION_METHOD_UNSPECIFIED: _ClassVar[FusionMethod]
    FUSION_METHOD_RRF: _ClassVar[FusionMethod]
    FUSION_METHOD_CONVEX: _ClassVar[FusionMethod]
    FUSION_METHOD_DBSF: _ClassVar[FusionMethod]
    FUSION_METHOD_CALIBRATED: _ClassVar[FusionMethod]

class ScoreScale(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SCORE_SCALE_UNSPECIFIED: _ClassVar[ScoreScale]
    SCORE_SCALE_RRF: _ClassVar[ScoreScale]
    SCORE_SCALE_CONVEX: _ClassVar[ScoreScale]
    SCORE_SCALE_DBSF: _ClassVar[ScoreScale]
    SCORE_SCALE_PROBABILITY: _ClassVar[ScoreScale]

class MissPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MISS_POLICY_UNSPECIFIED: _ClassVar[MissPolicy]
    MISS_POLICY_ANSWER: _ClassVar[MissPolicy]
    MISS_POLICY_FAIL: _ClassVar[MissPolicy]
SORT_BY_UNSPECIFIED: SortBy
SORT_BY_RELEVANCE: SortBy
SORT_BY_IMPORTANCE: SortBy
SORT_BY_RECENCY: SortBy
FUSION_METHOD_UNSPECIFIED: FusionMethod
FUSION_METHOD_RRF: FusionMethod
FUSION_METHOD_CONVEX: FusionMethod
FUSION_METHOD_DBSF: FusionMethod
FUSION_METHOD_CALIBRATED: FusionMethod
SCORE_SCALE_UNSPECIFIED: ScoreScale
SCORE_SCALE_RRF: ScoreScale
SCORE_SCALE_CONVEX: ScoreScale
SCORE_SCALE_DBSF: ScoreScale
SCORE_SCALE_PROBABILITY: ScoreScale
MISS_POLICY_UNSPECIFIED: MissPolicy
MISS_POLICY_ANSWER: MissPolicy
MISS_POLICY_FAIL: MissPolicy

class Fusion(_message.Message):
    __slots__ = ("method", "k", "alpha", "complete_scores", "exact_bonus")
    METHOD_FIELD_NUMBER: _ClassVar[int]
    K_FIELD_NUMBER: _ClassVar[int]
    ALPHA_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_SCORES_FIELD_NUMBER: _ClassVar[int]
    EXACT_BONUS_FIELD_NUMBER: _ClassVar[int]
    method: FusionMethod
    k: float
    alpha: float
    complete_scores: bool
    exact_bonus: float
    def __init__(self, method: _Optional[_Union[FusionMethod, str]] = ..., k: _Optional[float] = ..., alpha: _Optional[float] = ..., complete_scores: bool = ..., exact_bonus: _Optional[float] = ...) -> None: ...

class LegOptions(_message.Message):
    __slots__ = ("enabled", "weight", "depth", "deadline", "min_score", "scorer", "quota", "traversal", "trust", "borrow")
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    MIN_SCORE_FIELD_NUMBER: _ClassVar[int]
    SCORER_FIELD_NUMBER: _ClassVar[int]
    QUOTA_FIELD_NUMBER: _ClassVar[int]
    TRAVERSAL_FIELD_NUMBER: _ClassVar[int]
    TRUST_FIELD_NUMBER: _ClassVar[int]
    BORROW_FIELD_NUMBER: _ClassVar[int]
    enabled: bool
    weight: float
    depth: int
    deadline: _duration_pb2.Duration
    min_score: float
    scorer: _leg_pb2.Scorer
    quota: int
    traversal: _leg_pb2.Traversal
    trust: float
    borrow: float
    def __init__(self, enabled: bool = ..., weight: _Optional[float] = ..., depth: _Optional[int] = ..., deadline: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., min_score: _Optional[float] = ..., scorer: _Optional[_Union[_leg_pb2.Scorer, str]] = ..., quota: _Optional[int] = ..., traversal: _Optional[_Union[_leg_pb2.Traversal, str]] = ..., trust: _Optional[float] = ..., borrow: _Optional[float] = ...) -> None: ...

class Recency(_message.Message):
    __slots__ = ("weight", "half_life")
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    HALF_LIFE_FIELD_NUMBER: _ClassVar[int]
    weight: float
    half_life: _duration_pb2.Duration
    def __init__(self, weight: _Optional[float] = ..., half_life: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Rerank(_message.Message):
    __slots__ = ("enabled", "top", "deadline", "if_local")
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    TOP_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    IF_LOCAL_FIELD_NUMBER: _ClassVar[int]
    enabled: bool
    top: int
    deadline: _duration_pb2.Duration
    if_local: bool
    def __init__(self, enabled: bool = ..., top: _Optional[int] = ..., deadline: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., if_local: bool = ...) -> None: ...

class Diversity(_message.Message):
    __slots__ = ("resemblance",)
    RESEMBLANCE_FIELD_NUMBER: _ClassVar[int]
    resemblance: float
    def __init__(self, resemblance: _Optional[float] = ...) -> None: ...

class EntityBoost(_message.Message):
    __slots__ = ("weight", "max_terms")
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    MAX_TERMS_FIELD_NUMBER: _ClassVar[int]
    weight: float
    max_terms: int
    def __init__(self, weight: _Optional[float] = ..., max_terms: _Optional[int] = ...) -> None: ...

class TimePreference(_message.Message):
    __slots__ = ("weight",)
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    weight: float
    def __init__(self, weight: _Optional[float] = ...) -> None: ...

class MinScore(_message.Message):
    __slots__ = ("scale", "value")
    SCALE_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    scale: ScoreScale
    value: float
    def __init__(self, scale: _Optional[_Union[ScoreScale, str]] = ..., value: _Optional[float] = ...) -> None: ...

class RecallPolicy(_message.Message):
    __slots__ = ("fusion", "legs", "required_legs", "on_error", "on_timeout", "recency", "entity_boost", "rerank", "diversity", "min_score", "time_preference")
    class LegsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: LegOptions
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[LegOptions, _Mapping]] = ...) -> None: ...
    FUSION_FIELD_NUMBER: _ClassVar[int]
    LEGS_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_LEGS_FIELD_NUMBER: _ClassVar[int]
    ON_ERROR_FIELD_NUMBER: _ClassVar[int]
    ON_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    RECENCY_FIELD_NUMBER: _ClassVar[int]
    ENTITY_BOOST_FIELD_NUMBER: _ClassVar[int]
    RERANK_FIELD_NUMBER: _ClassVar[int]
    DIVERSITY_FIELD_NUMBER: _ClassVar[int]
    MIN_SCORE_FIELD_NUMBER: _ClassVar[int]
    TIME_PREFERENCE_FIELD_NUMBER: _ClassVar[int]
    fusion: Fusion
    legs: _containers.MessageMap[str, LegOptions]
    required_legs: _containers.RepeatedScalarFieldContainer[str]
    on_error: MissPolicy
    on_timeout: MissPolicy
    recency: Recency
    entity_boost: EntityBoost
    rerank: Rerank
    diversity: Diversity
    min_score: MinScore
    time_preference: TimePreference
    def __init__(self, fusion: _Optional[_Union[Fusion, _Mapping]] = ..., legs: _Optional[_Mapping[str, LegOptions]] = ..., required_legs: _Optional[_Iterable[str]] = ..., on_error: _Optional[_Union[MissPolicy, str]] = ..., on_timeout: _Optional[_Union[MissPolicy, str]] = ..., recency: _Optional[_Union[Recency, _Mapping]] = ..., entity_boost: _Optional[_Union[EntityBoost, _Mapping]] = ..., rerank: _Optional[_Union[Rerank, _Mapping]] = ..., diversity: _Optional[_Union[Diversity, _Mapping]] = ..., min_score: _Optional[_Union[MinScore, _Mapping]] = ..., time_preference: _Optional[_Union[TimePreference, _Mapping]] = ...) -> None: ...

class RecallRequest(_message.Message):
    __slots__ = ("namespaces", "query", "vector", "limit", "sort_by", "filter", "budget", "legs", "required_legs", "fusion", "ids_only", "explain", "return_spans", "at_least", "as_of", "on_error", "on_timeout", "recency", "min_score", "return_left_out", "entity_boost", "rerank", "diversity", "text_of", "surroundings", "time_preference")
    class LegsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: LegOptions
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[LegOptions, _Mapping]] = ...) -> None: ...
    NAMESPACES_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    VECTOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    SORT_BY_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    LEGS_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_LEGS_FIELD_NUMBER: _ClassVar[int]
    FUSION_FIELD_NUMBER: _ClassVar[int]
    IDS_ONLY_FIELD_NUMBER: _ClassVar[int]
    EXPLAIN_FIELD_NUMBER: _ClassVar[int]
    RETURN_SPANS_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    ON_ERROR_FIELD_NUMBER: _ClassVar[int]
    ON_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    RECENCY_FIELD_NUMBER: _ClassVar[int]
    MIN_SCORE_FIELD_NUMBER: _ClassVar[int]
    RETURN_LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    ENTITY_BOOST_FIELD_NUMBER: _ClassVar[int]
    RERANK_FIELD_NUMBER: _ClassVar[int]
    DIVERSITY_FIELD_NUMBER: _ClassVar[int]
    TEXT_OF_FIELD_NUMBER: _ClassVar[int]
    SURROUNDINGS_FIELD_NUMBER: _ClassVar[int]
    TIME_PREFERENCE_FIELD_NUMBER: _ClassVar[int]
    namespaces: _containers.RepeatedScalarFieldContainer[str]
    query: str
    vector: _containers.RepeatedScalarFieldContainer[float]
    limit: int
    sort_by: SortBy
    filter: _memory_pb2.Filter
    budget: _duration_pb2.Duration
    legs: _containers.MessageMap[str, LegOptions]
    required_legs: _containers.RepeatedScalarFieldContainer[str]
    fusion: Fusion
    ids_only: bool
    explain: bool
    return_spans: bool
    at_least: _containers.RepeatedScalarFieldContainer[str]
    as_of: _timestamp_pb2.Timestamp
    on_error: MissPolicy
    on_timeout: MissPolicy
    recency: Recency
    min_score: MinScore
    return_left_out: int
    entity_boost: EntityBoost
    rerank: Rerank
    diversity: Diversity
    text_of: str
    surroundings: int
    time_preference: TimePreference
    def __init__(self, namespaces: _Optional[_Iterable[str]] = ..., query: _Optional[str] = ..., vector: _Optional[_Iterable[float]] = ..., limit: _Optional[int] = ..., sort_by: _Optional[_Union[SortBy, str]] = ..., filter: _Optional[_Union[_memory_pb2.Filter, _Mapping]] = ..., budget: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., legs: _Optional[_Mapping[str, LegOptions]] = ..., required_legs: _Optional[_Iterable[str]] = ..., fusion: _Optional[_Union[Fusion, _Mapping]] = ..., ids_only: bool = ..., explain: bool = ..., return_spans: bool = ..., at_least: _Optional[_Iterable[str]] = ..., as_of: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., on_error: _Optional[_Union[MissPolicy, str]] = ..., on_timeout: _Optional[_Union[MissPolicy, str]] = ..., recency: _Optional[_Union[Recency, _Mapping]] = ..., min_score: _Optional[_Union[MinScore, _Mapping]] = ..., return_left_out: _Optional[int] = ..., entity_boost: _Optional[_Union[EntityBoost, _Mapping]] = ..., rerank: _Optional[_Union[Rerank, _Mapping]] = ..., diversity: _Optional[_Union[Diversity, _Mapping]] = ..., text_of: _Optional[str] = ..., surroundings: _Optional[int] = ..., time_preference: _Optional[_Union[TimePreference, _Mapping]] = ...) -> None: ...

class Contribution(_message.Message):
    __slots__ = ("leg", "rank", "raw_score", "score_kind", "normalized_score", "weight", "value", "path")
    LEG_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    RAW_SCORE_FIELD_NUMBER: _ClassVar[int]
    SCORE_KIND_FIELD_NUMBER: _ClassVar[int]
    NORMALIZED_SCORE_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    leg: str
    rank: int
    raw_score: float
    score_kind: _leg_pb2.ScoreKind
    normalized_score: float
    weight: float
    value: float
    path: _containers.RepeatedCompositeFieldContainer[_leg_pb2.PathStep]
    def __init__(self, leg: _Optional[str] = ..., rank: _Optional[int] = ..., raw_score: _Optional[float] = ..., score_kind: _Optional[_Union[_leg_pb2.ScoreKind, str]] = ..., normalized_score: _Optional[float] = ..., weight: _Optional[float] = ..., value: _Optional[float] = ..., path: _Optional[_Iterable[_Union[_leg_pb2.PathStep, _Mapping]]] = ...) -> None: ...

class Hit(_message.Message):
    __slots__ = ("id", "namespace", "rank", "score", "importance", "created_at", "memory", "prior", "contributions", "matches", "entity_boost", "entity_matches", "exact", "base_log_odds", "fused_rank", "rerank_score", "duplicates", "surroundings", "matched_time", "why")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    IMPORTANCE_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    PRIOR_FIELD_NUMBER: _ClassVar[int]
    CONTRIBUTIONS_FIELD_NUMBER: _ClassVar[int]
    MATCHES_FIELD_NUMBER: _ClassVar[int]
    ENTITY_BOOST_FIELD_NUMBER: _ClassVar[int]
    ENTITY_MATCHES_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    BASE_LOG_ODDS_FIELD_NUMBER: _ClassVar[int]
    FUSED_RANK_FIELD_NUMBER: _ClassVar[int]
    RERANK_SCORE_FIELD_NUMBER: _ClassVar[int]
    DUPLICATES_FIELD_NUMBER: _ClassVar[int]
    SURROUNDINGS_FIELD_NUMBER: _ClassVar[int]
    MATCHED_TIME_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    id: str
    namespace: str
    rank: int
    score: float
    importance: float
    created_at: _timestamp_pb2.Timestamp
    memory: _memory_pb2.Memory
    prior: float
    contributions: _containers.RepeatedCompositeFieldContainer[Contribution]
    matches: _memory_pb2.Matches
    entity_boost: float
    entity_matches: int
    exact: bool
    base_log_odds: float
    fused_rank: int
    rerank_score: float
    duplicates: _containers.RepeatedCompositeFieldContainer[Duplicate]
    surroundings: _memory_pb2.Surroundings
    matched_time: str
    why: str
    def __init__(self, id: _Optional[str] = ..., namespace: _Optional[str] = ..., rank: _Optional[int] = ..., score: _Optional[float] = ..., importance: _Optional[float] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., memory: _Optional[_Union[_memory_pb2.Memory, _Mapping]] = ..., prior: _Optional[float] = ..., contributions: _Optional[_Iterable[_Union[Contribution, _Mapping]]] = ..., matches: _Optional[_Union[_memory_pb2.Matches, _Mapping]] = ..., entity_boost: _Optional[float] = ..., entity_matches: _Optional[int] = ..., exact: bool = ..., base_log_odds: _Optional[float] = ..., fused_rank: _Optional[int] = ..., rerank_score: _Optional[float] = ..., duplicates: _Optional[_Iterable[_Union[Duplicate, _Mapping]]] = ..., surroundings: _Optional[_Union[_memory_pb2.Surroundings, _Mapping]] = ..., matched_time: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class Duplicate(_message.Message):
    __slots__ = ("id", "namespace", "fused_rank", "resemblance")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    FUSED_RANK_FIELD_NUMBER: _ClassVar[int]
    RESEMBLANCE_FIELD_NUMBER: _ClassVar[int]
    id: str
    namespace: str
    fused_rank: int
    resemblance: float
    def __init__(self, id: _Optional[str] = ..., namespace: _Optional[str] = ..., fused_rank: _Optional[int] = ..., resemblance: _Optional[float] = ...) -> None: ...

class RerankReport(_message.Message):
    __slots__ = ("state", "reason", "model", "reranked", "withheld", "budget", "spent")
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    RERANKED_FIELD_NUMBER: _ClassVar[int]
    WITHHELD_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    SPENT_FIELD_NUMBER: _ClassVar[int]
    state: _leg_pb2.LegState
    reason: str
    model: str
    reranked: int
    withheld: int
    budget: _duration_pb2.Duration
    spent: _duration_pb2.Duration
    def __init__(self, state: _Optional[_Union[_leg_pb2.LegState, str]] = ..., reason: _Optional[str] = ..., model: _Optional[str] = ..., reranked: _Optional[int] = ..., withheld: _Optional[int] = ..., budget: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., spent: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ContentsReport(_message.Message):
    __slots__ = ("state", "reason", "asked", "fetched", "budget", "spent")
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ASKED_FIELD_NUMBER: _ClassVar[int]
    FETCHED_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    SPENT_FIELD_NUMBER: _ClassVar[int]
    state: _leg_pb2.LegState
    reason: str
    asked: int
    fetched: int
    budget: _duration_pb2.Duration
    spent: _duration_pb2.Duration
    def __init__(self, state: _Optional[_Union[_leg_pb2.LegState, str]] = ..., reason: _Optional[str] = ..., asked: _Optional[int] = ..., fetched: _Optional[int] = ..., budget: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., spent: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Normalization(_message.Message):
    __slots__ = ("low", "high", "by_rank")
    LOW_FIELD_NUMBER: _ClassVar[int]
    HIGH_FIELD_NUMBER: _ClassVar[int]
    BY_RANK_FIELD_NUMBER: _ClassVar[int]
    low: float
    high: float
    by_rank: bool
    def __init__(self, low: _Optional[float] = ..., high: _Optional[float] = ..., by_rank: bool = ...) -> None: ...

class ScoreCompletion(_message.Message):
    __slots__ = ("asked", "scored", "missing_reason", "spent")
    ASKED_FIELD_NUMBER: _ClassVar[int]
    SCORED_FIELD_NUMBER: _ClassVar[int]
    MISSING_REASON_FIELD_NUMBER: _ClassVar[int]
    SPENT_FIELD_NUMBER: _ClassVar[int]
    asked: int
    scored: int
    missing_reason: str
    spent: _duration_pb2.Duration
    def __init__(self, asked: _Optional[int] = ..., scored: _Optional[int] = ..., missing_reason: _Optional[str] = ..., spent: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class LegReport(_message.Message):
    __slots__ = ("leg", "namespace", "state", "reason", "returned", "budget", "spent", "weight", "score_kind", "behind", "stale", "normalization", "completion", "queued", "hedged", "coverage", "age", "away")
    LEG_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    RETURNED_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    SPENT_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    SCORE_KIND_FIELD_NUMBER: _ClassVar[int]
    BEHIND_FIELD_NUMBER: _ClassVar[int]
    STALE_FIELD_NUMBER: _ClassVar[int]
    NORMALIZATION_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    HEDGED_FIELD_NUMBER: _ClassVar[int]
    COVERAGE_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    AWAY_FIELD_NUMBER: _ClassVar[int]
    leg: str
    namespace: str
    state: _leg_pb2.LegState
    reason: str
    returned: int
    budget: _duration_pb2.Duration
    spent: _duration_pb2.Duration
    weight: float
    score_kind: _leg_pb2.ScoreKind
    behind: int
    stale: bool
    normalization: Normalization
    completion: ScoreCompletion
    queued: _duration_pb2.Duration
    hedged: bool
    coverage: float
    age: _duration_pb2.Duration
    away: bool
    def __init__(self, leg: _Optional[str] = ..., namespace: _Optional[str] = ..., state: _Optional[_Union[_leg_pb2.LegState, str]] = ..., reason: _Optional[str] = ..., returned: _Optional[int] = ..., budget: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., spent: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., weight: _Optional[float] = ..., score_kind: _Optional[_Union[_leg_pb2.ScoreKind, str]] = ..., behind: _Optional[int] = ..., stale: bool = ..., normalization: _Optional[_Union[Normalization, _Mapping]] = ..., completion: _Optional[_Union[ScoreCompletion, _Mapping]] = ..., queued: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., hedged: bool = ..., coverage: _Optional[float] = ..., age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., away: bool = ...) -> None: ...

class RecallResponse(_message.Message):
    __slots__ = ("hits", "legs", "degraded", "degraded_reason", "fusion", "score_scale", "trace_id", "budget", "spent", "spans", "min_score_ignored", "nothing_relevant", "left_out", "rerank", "contents")
    HITS_FIELD_NUMBER: _ClassVar[int]
    LEGS_FIELD_NUMBER: _ClassVar[int]
    DEGRADED_FIELD_NUMBER: _ClassVar[int]
    DEGRADED_REASON_FIELD_NUMBER: _ClassVar[int]
    FUSION_FIELD_NUMBER: _ClassVar[int]
    SCORE_SCALE_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    SPENT_FIELD_NUMBER: _ClassVar[int]
    SPANS_FIELD_NUMBER: _ClassVar[int]
    MIN_SCORE_IGNORED_FIELD_NUMBER: _ClassVar[int]
    NOTHING_RELEVANT_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    RERANK_FIELD_NUMBER: _ClassVar[int]
    CONTENTS_FIELD_NUMBER: _ClassVar[int]
    hits: _containers.RepeatedCompositeFieldContainer[Hit]
    legs: _containers.RepeatedCompositeFieldContainer[LegReport]
    degraded: bool
    degraded_reason: str
    fusion: Fusion
    score_scale: ScoreScale
    trace_id: str
    budget: _duration_pb2.Duration
    spent: _duration_pb2.Duration
    spans: _containers.RepeatedCompositeFieldContainer[_trace_pb2.Span]
    min_score_ignored: str
    nothing_relevant: bool
    left_out: _containers.RepeatedCompositeFieldContainer[Hit]
    rerank: RerankReport
    contents: ContentsReport
    def __init__(self, hits: _Optional[_Iterable[_Union[Hit, _Mapping]]] = ..., legs: _Optional[_Iterable[_Union[LegReport, _Mapping]]] = ..., degraded: bool = ..., degraded_reason: _Optional[str] = ..., fusion: _Optional[_Union[Fusion, _Mapping]] = ..., score_scale: _Optional[_Union[ScoreScale, str]] = ..., trace_id: _Optional[str] = ..., budget: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., spent: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., spans: _Optional[_Iterable[_Union[_trace_pb2.Span, _Mapping]]] = ..., min_score_ignored: _Optional[str] = ..., nothing_relevant: bool = ..., left_out: _Optional[_Iterable[_Union[Hit, _Mapping]]] = ..., rerank: _Optional[_Union[RerankReport, _Mapping]] = ..., contents: _Optional[_Union[ContentsReport, _Mapping]] = ...) -> None: ...

class RecallServiceGetIndexStatusRequest(_message.Message):
    __slots__ = ("namespace",)
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    def __init__(self, namespace: _Optional[str] = ...) -> None: ...

class LegIndexStatus(_message.Message):
    __slots__ = ("leg", "status", "error")
    LEG_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    leg: str
    status: _leg_pb2.GetIndexStatusResponse
    error: str
    def __init__(self, leg: _Optional[str] = ..., status: _Optional[_Union[_leg_pb2.GetIndexStatusResponse, _Mapping]] = ..., error: _Optional[str] = ...) -> None: ...

class RecallServiceGetIndexStatusResponse(_message.Message):
    __slots__ = ("legs",)
    LEGS_FIELD_NUMBER: _ClassVar[int]
    legs: _containers.RepeatedCompositeFieldContainer[LegIndexStatus]
    def __init__(self, legs: _Optional[_Iterable[_Union[LegIndexStatus, _Mapping]]] = ...) -> None: ...
