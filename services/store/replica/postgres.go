package replica

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/triskele/triskele/services/store/postgres"
)

// postgresSource follows memory.log. The changes of a namespace are numbered in the order of their commits: a transaction takes a
// number last, and others wait for theirs until it ends. So numbers mean the same on every node of a distributed database.
type postgresSource struct {
	pool    *pgxpool.Pool
	standby *postgres.Standby
	whole   chan struct{} // a semaphore: loading leaves half of the connections to others

	mu     sync.Mutex
	placed placed
	polls  map[int]polled // by node
}

// placed says which node has a namespace.
type placed struct {
	placements int64 // memory.placements(), when the nodes were asked for
	nodes      map[string]int
}

// polled is what a poll of a node found.
type polled struct {
	names     []string
	committed committed // before found was read
	found     map[string]position
}

// committed is what memory.committed returns.
type committed struct {
	snapshot   string
	placements int64
}

// lookingUp are settings for statements that look up by key, whatever the planner thinks of the tables' sizes: it would read all of the log
// for each poll.
var lookingUp = map[string]string{"enable_seqscan": "off"}

func (p *postgresSource) snapshot(ctx context.Context, namespace string, whole bool, fn func(Tx) error) error {
	settings := lookingUp
	if whole {
		settings = nil
		select {
		case p.whole <- struct{}{}:
			defer func() { <-p.whole }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return postgres.Search(ctx, p.standby.Or(p.pool), namespace, settings, func(tx pgx.Tx) error { return fn(Tx{postgres: tx}) })
}

// numbered joins namespaces n with the numbers c of their last changes.
const numbered = `memory.namespaces n LEFT JOIN memory.changes c ON c.namespace = n.name AND c.lane = '00000000-0000-0000-0000-000000000000'`

const sincePostgres = `
	SELECT memory.timeline(), n.epoch::text, coalesce(c.revision, 0), coalesce(l.part::text, ''), coalesce(l.memory_id, '00000000-0000-0000-0000-000000000000'),
		coalesce(l.revision, 0)
	FROM ` + numbered + ` LEFT JOIN memory.log l ON l.namespace = n.name AND l.revision > $2 WHERE n.name = $1`

func (p *postgresSource) since(ctx context.Context, tx Tx, namespace string, at position) (changes, error) {
	c := changes{ids: map[Kind][]uuid.UUID{}}
	type change struct {
		kind Kind
		id   uuid.UUID
	}
	seen, numbers := map[change]bool{}, map[int64]bool{}
	var one change
	var number int64
	if at.epoch == "" { // nothing is read but the position
		at.last = 1<<63 - 1
	}
	err := tx.Each(ctx, sincePostgres, []any{namespace, at.last}, []any{&c.now.timeline, &c.now.epoch, &c.now.last, &one.kind, &one.id, &number}, func() error {
		if one.kind == "" {
			return nil
		}
		if numbers[number] = true; !seen[one] {
			seen[one] = true
			c.ids[one.kind] = append(c.ids[one.kind], one.id)
		}
		return nil
	})
	c.exists = c.now.epoch != ""
	c.gap = at.epoch != "" && int64(len(numbers)) != c.now.last-at.last
	return c, err
}

func (p *postgresSource) poll(ctx context.Context, namespaces []string, at []position) ([]bool, error) {
	nodes, err := p.byNode(ctx, namespaces)
	if err != nil {
		return nil, err
	}
	var asking sync.WaitGroup
	var mu sync.Mutex
	found := make(map[string]position, len(at))
	for node, names := range nodes {
		asking.Go(func() {
			there, failed := p.pollNode(ctx, node, names)
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(found, there)
			err = errors.Join(err, failed)
		})
	}
	if asking.Wait(); err != nil {
		return nil, err
	}
	changed := make([]bool, len(namespaces))
	for i, name := range namespaces {
		changed[i] = found[name] != at[i]
	}
	return changed, nil
}

// pollNode returns the positions of a node's namespaces. It reads them only if something was committed on the node since it last did.
func (p *postgresSource) pollNode(ctx context.Context, node int, names []string) (map[string]position, error) {
	slices.Sort(names)
	p.mu.Lock()
	last := p.polls[node]
	delete(p.polls, node) // until this succeeds: a server that crashed may give the same numbers to other transactions
	p.mu.Unlock()
	now, err := postgres.Call(ctx, p.standby.Or(p.pool), postgres.AllNamespaces, `SELECT * FROM memory.committed($1)`, []any{names[0]}, scanCommitted)
	if err != nil {
		return nil, err
	}
	if now[0] != last.committed || !slices.Equal(names, last.names) {
		last = polled{names: names, committed: now[0]}
		if last.found, err = p.positions(ctx, names); err != nil {
			return nil, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if last.committed.placements != p.placed.placements { // what this node commits need not be about all of the names
		p.placed = placed{}
		return last.found, nil
	}
	if p.polls == nil {
		p.polls = map[int]polled{}
	}
	p.polls[node] = last
	return last.found, nil
}

func scanCommitted(row pgx.CollectableRow) (c committed, err error) {
	err = row.Scan(&c.snapshot, &c.placements)
	return c, err
}

func (p *postgresSource) still(ctx context.Context, namespace string, at position) (bool, error) {
	found, err := p.positions(ctx, []string{namespace})
	return found[namespace] == at, err
}

// positions returns the positions of namespaces, which should be of one node.
func (p *postgresSource) positions(ctx context.Context, names []string) (map[string]position, error) {
	found := make(map[string]position, len(names))
	_, err := postgres.Call(ctx, p.standby.Or(p.pool), postgres.AllNamespaces, `SELECT * FROM memory.positions($1, $2)`, []any{names[0], names}, func(row pgx.CollectableRow) (struct{}, error) {
		var name string
		var now position
		err := row.Scan(&name, &now.timeline, &now.epoch, &now.last)
		found[name] = now
		return struct{}{}, err
	})
	return found, err
}

// byNode returns the namespaces by the node that has them. If one has moved since it was asked about, asking for its position there is
// slower and no less right.
func (p *postgresSource) byNode(ctx context.Context, namespaces []string) (map[int][]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.ContainsFunc(namespaces, func(name string) bool { _, known := p.placed.nodes[name]; return !known }) {
		rows, _ := p.standby.Or(p.pool).Query(ctx, `SELECT name, memory.node(name), memory.placements() FROM unnest($1::text[]) AS name`, namespaces)
		now := placed{nodes: make(map[string]int, len(namespaces))}
		var name string
		var node int
		if _, err := pgx.ForEachRow(rows, []any{&name, &node, &now.placements}, func() error {
			now.nodes[name] = node
			return nil
		}); err != nil {
			return nil, err
		}
		p.placed = now
	}
	nodes := map[int][]string{}
	for _, name := range namespaces {
		nodes[p.placed.nodes[name]] = append(nodes[p.placed.nodes[name]], name)
	}
	return nodes, nil
}

// logAge is how long changes stay in the log: images that were polled since then need not be read anew.
const logAge = "10 minutes"

func (p *postgresSource) prune(ctx context.Context) error {
	_, err := postgres.In(p.pool, postgres.AllNamespaces).Exec(ctx, `SELECT memory.prune_log($1::text::interval)`, logAge)
	return err
}
