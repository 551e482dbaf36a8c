package graph

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/postgres"
)

var _ store = (*Postgres)(nil)

// statePostgres selects a state. A failover can repeat versions, so the timeline is part of the epoch.
const statePostgres = "SELECT epoch # (" + postgres.Timeline + "), version, removed FROM graph.versions WHERE namespace = $1"

// state implements source.
func (p *Postgres) state(ctx context.Context, namespace string) (state, error) {
	return scanState(postgres.In(p.Or(p.pool), namespace).QueryRow(ctx, statePostgres, namespace))
}

func scanState(row pgx.Row) (s state, err error) {
	if err = row.Scan(&s.epoch, &s.version, &s.removed); errors.Is(err, pgx.ErrNoRows) {
		return state{}, nil
	}
	return s, err
}

// changes implements source.
func (p *Postgres) changes(ctx context.Context, namespace, model string, after int64) (out []memoryRows, err error) {
	err = postgres.Search(ctx, p.Or(p.pool), namespace, nil, func(tx pgx.Tx) error {
		place := map[uuid.UUID]int{}
		var id uuid.UUID
		var from, to, expires int64
		rows, err := tx.Query(ctx, `
			SELECT m.id, (extract(epoch FROM coalesce(m.occurred_at, m.created_at)) * 1000000)::bigint,
				CASE WHEN m.superseded_by IS NULL THEN 0 ELSE (extract(epoch FROM m.updated_at) * 1000000)::bigint END,
				coalesce((extract(epoch FROM m.expires_at) * 1000000)::bigint, 0)
			FROM graph.link_ends e JOIN memory.memories m ON m.namespace = e.namespace AND m.id = e.memory_id
			WHERE e.namespace = $1 AND e.version > $2 ORDER BY m.id`, namespace, after)
		if err != nil {
			return err
		}
		if _, err := pgx.ForEachRow(rows, []any{&id, &from, &to, &expires}, func() error {
			place[id] = len(out)
			out = append(out, memoryRows{ID: id, From: from, To: to, Expires: expires})
			return nil
		}); err != nil {
			return err
		}
		// Memories added after the first statement have a later version.
		each := func(statement string, targets []any, add func(*memoryRows), more ...any) error {
			rows, err := tx.Query(ctx, statement, append([]any{namespace, after}, more...)...)
			if err != nil {
				return err
			}
			_, err = pgx.ForEachRow(rows, append([]any{&id}, targets...), func() error {
				if at, there := place[id]; there {
					add(&out[at])
				}
				return nil
			})
			return err
		}
		var m mention
		if err := each(`
			SELECT c.memory_id, c.concept_id, c.salience
			FROM graph.link_ends e JOIN graph.memory_concepts c ON c.namespace = e.namespace AND c.memory_id = e.memory_id
			WHERE e.namespace = $1 AND e.version > $2 ORDER BY c.memory_id, c.concept_id`, []any{&m.concept, &m.salience},
			func(r *memoryRows) { r.Mentions = append(r.Mentions, m) }); err != nil {
			return err
		}
		var f factRow
		var vector []byte
		if err := each(`
			SELECT c.memory_id, c.source_id, c.target_id, c.relation, c.single, (extract(epoch FROM c.valid_from) * 1000000)::bigint,
				coalesce((extract(epoch FROM c.stated_to) * 1000000)::bigint, 0), CASE WHEN c.vector_model = $3 THEN c.vector END
			FROM graph.link_ends e JOIN graph.concept_edges c ON c.namespace = e.namespace AND c.memory_id = e.memory_id
			WHERE e.namespace = $1 AND e.version > $2 AND c.relation <> '`+coMention+`'
			ORDER BY c.memory_id, c.source_id, c.target_id, c.relation COLLATE "C"`,
			[]any{&f.Source, &f.Target, &f.Relation, &f.Single, &f.From, &f.To, &vector},
			func(r *memoryRows) { f.Vector = toCode(vector); r.Facts = append(r.Facts, f) }, model); err != nil {
			return err
		}
		var l authorLink
		return each(`
			SELECT c.source_id, c.target_key, c.relation
			FROM graph.link_ends e JOIN graph.memory_links c ON c.namespace = e.namespace AND c.source_id = e.memory_id
			WHERE e.namespace = $1 AND e.version > $2 ORDER BY c.source_id, c.target_key, c.relation COLLATE "C"`,
			[]any{&l.target, &l.relation},
			func(r *memoryRows) { r.Links = append(r.Links, l) })
	})
	return out, err
}

// memories implements source.
func (p *Postgres) memories(ctx context.Context, namespace string) ([]uuid.UUID, error) {
	rows, err := postgres.In(p.Or(p.pool), namespace).Query(ctx, "SELECT memory_id FROM graph.link_ends WHERE namespace = $1", namespace)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}

// texts implements source.
func (p *Postgres) texts(ctx context.Context, namespace, model string, ids []int64) (map[int64]conceptText, error) {
	rows, err := postgres.In(p.Or(p.pool), namespace).Query(ctx, `
		SELECT id, key, name, CASE WHEN vector_model = $3 THEN vector END FROM graph.concepts WHERE namespace = $1 AND id = ANY($2)`, namespace, ids, model)
	if err != nil {
		return nil, err
	}
	out := map[int64]conceptText{}
	var id int64
	var text conceptText
	var vector []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &text.key, &text.name, &vector}, func() error {
		text.vector = toCode(vector)
		out[id] = text
		return nil
	})
	return out, err
}

// pick implements store in one round trip.
func (p *Postgres) pick(ctx context.Context, q leg.Query, ids []uuid.UUID) (at state, hits []leg.Hit, err error) {
	var args postgres.Args
	batch := &pgx.Batch{}
	batch.Queue(statePostgres, q.Namespace).QueryRow(func(row pgx.Row) (err error) {
		at, err = scanState(row)
		return err
	})
	batch.Queue("SELECT m.id, m.importance, m.created_at FROM memory.memories m WHERE m.namespace = "+
		args.Add(q.Namespace)+" AND m.id = ANY("+args.Add(ids)+") AND "+livePostgres(q, q.Filter, &args), args...).Query(func(rows pgx.Rows) (err error) {
		hits, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (leg.Hit, error) {
			var h leg.Hit
			err := row.Scan(&h.ID, &h.Importance, &h.CreatedAt)
			h.CreatedAt = h.CreatedAt.UTC()
			return h, err
		})
		return err
	})
	err = postgres.In(p.Or(p.pool), q.Namespace).Searching(nil).Send(ctx, batch)
	return at, hits, err
}
