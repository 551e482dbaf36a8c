package replica

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/triskele/triskele/services/store/postgres"
)

// postgresSource follows memory.log. A position is a snapshot: a change is later if the snapshot does not see its
// transaction. Numbers of a sequence would not do, because transactions commit in another order than they begin.
type postgresSource struct {
	pool    *pgxpool.Pool
	standby *postgres.Standby
	oldest  []horizon // the oldest first
}

// horizon is the oldest transaction that ran at a time.
type horizon struct {
	at     time.Time
	oldest string
}

// scanning and lookingUp are settings for statements that read a whole namespace, and for those that look up by key, whatever
// the planner thinks of the tables' sizes: it would read all of the log for each poll.
var (
	scanning  = map[string]string{"jit": "off"}
	lookingUp = map[string]string{"jit": "off", "enable_seqscan": "off"}
)

func (p *postgresSource) snapshot(ctx context.Context, namespace string, whole bool, fn func(Tx) error) error {
	settings := lookingUp
	if whole {
		settings = scanning
	}
	return postgres.Search(ctx, p.standby.Or(p.pool), namespace, settings, func(tx pgx.Tx) error { return fn(Tx{postgres: tx}) })
}

// nowPostgres selects the timeline and the snapshot. A standby does not know the running transactions: its snapshot ends
// before the oldest one.
const nowPostgres = `(SELECT ` + postgres.Timeline + ` AS timeline,
	CASE WHEN pg_is_in_recovery() THEN format('%1$s:%1$s:', pg_snapshot_xmin(pg_current_snapshot())) ELSE pg_current_snapshot()::text END AS snapshot) now`

// laterPostgres is the condition on memory.log l that a snapshot does not see a change.
func laterPostgres(snapshot string) string {
	return `l.writer >= pg_snapshot_xmin(` + snapshot + `) AND NOT pg_visible_in_snapshot(l.writer, ` + snapshot + `)`
}

// gapPostgres is the condition that the log may lack a change that a snapshot does not see.
func gapPostgres(snapshot string) string { return `floor.writer > pg_snapshot_xmin(` + snapshot + `)` }

var sincePostgres = `
	SELECT now.timeline, now.snapshot, coalesce(n.epoch::text, ''), coalesce(` + gapPostgres(`nullif($2, '')::pg_snapshot`) + `, false),
		coalesce(l.part::text, ''), coalesce(l.memory_id, '00000000-0000-0000-0000-000000000000')
	FROM ` + nowPostgres + ` CROSS JOIN memory.log_floor floor LEFT JOIN memory.namespaces n ON n.name = $1
	LEFT JOIN memory.log l ON $2 <> '' AND l.namespace = $1 AND ` + laterPostgres(`nullif($2, '')::pg_snapshot`)

func (p *postgresSource) since(ctx context.Context, tx Tx, namespace string, at position) (changes, error) {
	c := changes{ids: map[Kind][]uuid.UUID{}}
	seen := map[Kind]map[uuid.UUID]bool{}
	var kind Kind
	var id uuid.UUID
	err := tx.Each(ctx, Statement{Postgres: sincePostgres}, []any{namespace, at.snapshot}, []any{&c.now.timeline, &c.now.snapshot, &c.now.epoch, &c.gap, &kind, &id}, func() error {
		if kind == "" || seen[kind][id] {
			return nil
		}
		if seen[kind] == nil {
			seen[kind] = map[uuid.UUID]bool{}
		}
		seen[kind][id] = true
		c.ids[kind] = append(c.ids[kind], id)
		return nil
	})
	c.exists = c.now.epoch != ""
	return c, err
}

var pollPostgres = `
	SELECT now.timeline, now.snapshot, u.place, now.timeline <> u.timeline OR n.epoch::text IS DISTINCT FROM u.epoch
		OR ` + gapPostgres(`u.snapshot::pg_snapshot`) + `
		OR EXISTS (SELECT FROM memory.log l WHERE l.namespace = u.namespace AND ` + laterPostgres(`u.snapshot::pg_snapshot`) + `)
	FROM ` + nowPostgres + ` CROSS JOIN memory.log_floor floor CROSS JOIN unnest($1::text[], $2::text[], $3::bigint[], $4::text[]) WITH ORDINALITY AS u (namespace, snapshot, timeline, epoch, place)
	LEFT JOIN memory.namespaces n ON n.name = u.namespace`

func (p *postgresSource) poll(ctx context.Context, namespaces []string, at []position) (changed []bool, now position, err error) {
	changed = make([]bool, len(namespaces))
	snapshots, timelines, epochs := make([]string, len(at)), make([]int64, len(at)), make([]string, len(at))
	for i, a := range at {
		snapshots[i], timelines[i], epochs[i] = a.snapshot, a.timeline, a.epoch
	}
	rows, err := postgres.In(p.standby.Or(p.pool), postgres.AllNamespaces).Searching(lookingUp).Query(ctx, pollPostgres, namespaces, snapshots, timelines, epochs)
	if err != nil {
		return nil, now, err
	}
	var place int
	var is bool
	_, err = pgx.ForEachRow(rows, []any{&now.timeline, &now.snapshot, &place, &is}, func() error {
		changed[place-1] = is
		return nil
	})
	return changed, now, err
}

// logAge is how long changes stay in the log: images that were polled since then need not be read anew.
const logAge = 10 * time.Minute

// prune removes the changes of transactions that had ended logAge ago, as this process saw it: a transaction that takes long
// writes its changes into the log when it begins.
func (p *postgresSource) prune(ctx context.Context) error {
	now := horizon{at: time.Now()}
	db := postgres.In(p.pool, postgres.AllNamespaces)
	if err := db.QueryRow(ctx, `SELECT pg_snapshot_xmin(pg_current_snapshot())::text`).Scan(&now.oldest); err != nil {
		return err
	}
	p.oldest = append(p.oldest, now)
	var before string
	for len(p.oldest) > 0 && now.at.Sub(p.oldest[0].at) > logAge {
		before, p.oldest = p.oldest[0].oldest, p.oldest[1:]
	}
	if before == "" {
		return nil
	}
	_, err := db.Exec(ctx, `SELECT memory.prune_log($1::text::xid8)`, before)
	return err
}
