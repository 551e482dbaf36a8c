package record

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const (
	maxMetadataKeys  = 64
	maxMetadataBytes = 16 << 10
	maxMetadataDepth = 32 // databases have limits too, which differ
)

// FieldError names an invalid field of a message and its rule. Handlers turn it into INVALID_ARGUMENT.
type FieldError struct{ Field, MustBe string }

func (e *FieldError) Error() string { return e.Field + ": " + e.MustBe }

// FromProto converts a message with valid declared bounds, and checks the other rules.
func FromProto(m *triskelev1.Memory) (Record, error) {
	r := Record{
		Namespace:      m.GetNamespace(),
		Content:        m.GetContent(),
		Title:          m.GetTitle(),
		Keywords:       slices.Clone(m.GetExpandedKeywords()),
		Tags:           slices.Clone(m.GetTags()),
		Category:       m.GetCategory(),
		Importance:     DefaultImportance,
		Sensitive:      m.GetSensitive(),
		Source:         m.GetSource(),
		Revision:       m.GetRevision(),
		IdempotencyKey: m.GetIdempotencyKey(),
		Thread:         m.GetThread(),
		Position:       m.Position,
	}
	if r.Revision > MaxRevision {
		return Record{}, &FieldError{"revision", fmt.Sprintf("must be at most %d", MaxRevision)}
	}
	if m.Importance != nil {
		r.Importance = positive(m.GetImportance())
	}
	for _, id := range []struct {
		field, text string
		to          *uuid.UUID
	}{{"id", m.GetId(), &r.ID}, {"supersedes", m.GetSupersedes(), &r.Supersedes}, {"superseded_by", m.GetSupersededBy(), &r.SupersededBy}} {
		if id.text == "" {
			continue
		}
		parsed, err := uuid.Parse(id.text)
		if err != nil || parsed == uuid.Nil {
			return Record{}, &FieldError{id.field, "must be a UUID, not the nil one"}
		}
		*id.to = parsed
	}
	for _, at := range []struct {
		field string
		from  *timestamppb.Timestamp
		to    *time.Time
	}{
		{"created_at", m.GetCreatedAt(), &r.CreatedAt}, {"updated_at", m.GetUpdatedAt(), &r.UpdatedAt},
		{"occurred_at", m.GetOccurredAt(), &r.OccurredAt}, {"expires_at", m.GetExpiresAt(), &r.ExpiresAt},
	} {
		parsed, err := timeFromProto(at.field, at.from)
		if err != nil {
			return Record{}, err
		}
		*at.to = parsed
	}
	for i, l := range m.GetLinks() {
		target, err := uuid.Parse(l.GetTarget())
		if err != nil {
			return Record{}, &FieldError{fmt.Sprintf("links[%d].target", i), "must be a UUID"}
		}
		r.Links = append(r.Links, Link{target, l.GetRelation()})
	}
	metadata, err := metadataFromProto(m.GetMetadata())
	if err != nil {
		return Record{}, err
	}
	r.Metadata = metadata
	return r, nil
}

func timeFromProto(field string, t *timestamppb.Timestamp) (time.Time, error) {
	if t == nil {
		return time.Time{}, nil
	}
	at := t.AsTime().Truncate(time.Microsecond)
	if !t.IsValid() || at.IsZero() { // the zero time means none
		return time.Time{}, &FieldError{field, "must lie after 0001-01-01 and before 10000-01-01"}
	}
	return at, nil
}

func metadataFromProto(s *structpb.Struct) (map[string]any, error) {
	if len(s.GetFields()) == 0 {
		return nil, nil
	}
	if len(s.GetFields()) > maxMetadataKeys {
		return nil, &FieldError{"metadata", fmt.Sprintf("must have at most %d keys", maxMetadataKeys)}
	}
	if !finite(structpb.NewStructValue(s), maxMetadataDepth) {
		return nil, &FieldError{"metadata", fmt.Sprintf("must have finite numbers and at most %d levels", maxMetadataDepth)}
	}
	metadata := s.AsMap()
	_, nul := unsign(metadata)
	encoded, err := json.Marshal(metadata)
	if err != nil {
		return nil, fmt.Errorf("encode metadata: %w", err)
	}
	if len(encoded) > maxMetadataBytes {
		return nil, &FieldError{"metadata", fmt.Sprintf("must be at most %d bytes as JSON", maxMetadataBytes)}
	}
	if nul {
		return nil, &FieldError{"metadata", "must not contain NUL characters"}
	}
	return metadata, nil
}

// positive returns 0 for -0, which only some databases keep.
func positive(x float64) float64 {
	if x == 0 {
		return 0
	}
	return x
}

// unsign turns every -0 of a JSON value into 0, in place. It reports whether a text has the character NUL, which PostgreSQL cannot store.
func unsign(value any) (unsigned any, nul bool) {
	switch v := value.(type) {
	case string:
		return v, strings.ContainsRune(v, 0)
	case float64:
		return positive(v), false
	case []any:
		for i := range v {
			var here bool
			v[i], here = unsign(v[i])
			nul = nul || here
		}
	case map[string]any:
		for k := range v {
			var here bool
			v[k], here = unsign(v[k])
			nul = nul || here || strings.ContainsRune(k, 0)
		}
	}
	return value, nul
}

// finite reports whether a value has only finite numbers and at most so many levels. AsInterface makes other numbers
// strings.
func finite(v *structpb.Value, levels int) bool {
	switch kind := v.GetKind().(type) {
	case *structpb.Value_NumberValue:
		return !math.IsNaN(kind.NumberValue) && !math.IsInf(kind.NumberValue, 0)
	case *structpb.Value_ListValue:
		return levels > 0 && !slices.ContainsFunc(kind.ListValue.GetValues(), func(v *structpb.Value) bool { return !finite(v, levels-1) })
	case *structpb.Value_StructValue:
		for _, v := range kind.StructValue.GetFields() {
			if !finite(v, levels-1) {
				return false
			}
		}
		return levels > 0
	}
	return true
}

// ToProto converts a stored memory into a message. It panics if the metadata are no JSON, which neither a store nor FromProto returns.
func ToProto(r Record) *triskelev1.Memory {
	m := &triskelev1.Memory{
		Id:               idToProto(r.ID),
		Namespace:        r.Namespace,
		Content:          r.Content,
		Title:            r.Title,
		ExpandedKeywords: r.Keywords,
		Tags:             r.Tags,
		Category:         r.Category,
		Importance:       &r.Importance,
		Sensitive:        r.Sensitive,
		Source:           r.Source,
		CreatedAt:        timeToProto(r.CreatedAt),
		UpdatedAt:        timeToProto(r.UpdatedAt),
		OccurredAt:       timeToProto(r.OccurredAt),
		ExpiresAt:        timeToProto(r.ExpiresAt),
		Supersedes:       idToProto(r.Supersedes),
		SupersededBy:     idToProto(r.SupersededBy),
		Revision:         r.Revision,
		IdempotencyKey:   r.IdempotencyKey,
		Thread:           r.Thread,
		Position:         r.Position,
	}
	for _, l := range r.Links {
		m.Links = append(m.Links, &triskelev1.Link{Target: l.Target.String(), Relation: l.Relation})
	}
	if len(r.Metadata) > 0 {
		var err error
		if m.Metadata, err = structpb.NewStruct(r.Metadata); err != nil {
			panic(err)
		}
	}
	return m
}

func timeToProto(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func idToProto(id uuid.UUID) string {
	if id == uuid.Nil {
		return ""
	}
	return id.String()
}

// FilterFromProto converts a filter whose declared bounds have been checked.
func FilterFromProto(f *triskelev1.Filter) (Filter, error) {
	out := Filter{
		TagsAny:           f.GetTagsAny(),
		TagsAll:           f.GetTagsAll(),
		Categories:        f.GetCategories(),
		IncludeSuperseded: f.GetIncludeSuperseded(),
	}
	for _, at := range []struct {
		field string
		from  *timestamppb.Timestamp
		to    *time.Time
	}{
		{"created_from", f.GetCreatedFrom(), &out.CreatedFrom}, {"created_before", f.GetCreatedBefore(), &out.CreatedBefore},
		{"occurred_from", f.GetOccurredFrom(), &out.OccurredFrom}, {"occurred_before", f.GetOccurredBefore(), &out.OccurredBefore},
	} {
		parsed, err := timeFromProto("filter."+at.field, at.from)
		if err != nil {
			return Filter{}, err
		}
		*at.to = parsed
	}
	for key, value := range f.GetMetadata() {
		const field = "filter.metadata"           // without the key: it may be private, and errors get into spans
		plain, nul := unsign(value.AsInterface()) // as metadata are stored
		switch plain.(type) {
		case string, bool, float64:
		default:
			return Filter{}, &FieldError{field, "values must be strings, numbers or booleans"}
		}
		if nul {
			return Filter{}, &FieldError{field, "values must not contain NUL characters"}
		}
		if !finite(value, 0) {
			return Filter{}, &FieldError{field, "numbers must be finite"}
		}
		if out.Metadata == nil {
			out.Metadata = map[string]any{}
		}
		out.Metadata[key] = plain
	}
	return out, nil
}
