package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite" // the driver
)

// batch is how many records an import stores in a transaction, and so does the floor.
const batch = 200

// database is an empty one on either engine.
type database struct {
	path, url  string    // of the file, or on the server
	admin      *pgx.Conn // of the server
	name       string
	postmaster int // process; 0 if it is not one of this machine, or for SQLite
}

func (s settings) open(ctx context.Context, engine string) (*database, error) {
	if engine == "SQLite" {
		folder, err := os.MkdirTemp(s.folder, "sqlite-")
		return &database{path: filepath.Join(folder, "bench.db")}, err
	}
	admin, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return nil, err
	}
	d := &database{admin: admin, name: fmt.Sprintf("importbench_%d_%d", os.Getpid(), time.Now().UnixNano())}
	var pid int
	if err := admin.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		return nil, err
	}
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
		if _, rest, ok := strings.Cut(string(stat), "(postgres) "); ok {
			d.postmaster, _ = strconv.Atoi(strings.Fields(rest)[1])
		}
	}
	u, err := url.Parse(s.url)
	if err != nil {
		return nil, err
	}
	u.Path = "/" + d.name
	d.url = u.String()
	_, err = admin.Exec(ctx, "CREATE DATABASE "+d.name)
	return d, err
}

// flags are those of triskele up.
func (d *database) flags() []string {
	if d.path != "" {
		return []string{"--sqlite", d.path}
	}
	return []string{"--postgres", d.url}
}

func (d *database) drop() {
	if d.path != "" {
		_ = os.RemoveAll(filepath.Dir(d.path))
		return
	}
	_, _ = d.admin.Exec(context.Background(), "DROP DATABASE "+d.name+" WITH (FORCE)")
	_ = d.admin.Close(context.Background())
}

// floor is how long it takes to write n records, as JSON, into a table with a primary key and nothing else.
func (d *database) floor(ctx context.Context, n int) (took time.Duration, err error) {
	var rows [][]byte
	begun := time.Now()
	write, done, err := d.bare(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	for l := range records(n) {
		text, err := json.Marshal(l)
		if err != nil {
			return 0, err
		}
		if rows = append(rows, text); len(rows) == batch || l.Metadata["n"] == n-1 {
			if err := write(l.Metadata["n"], rows); err != nil {
				return 0, err
			}
			rows = rows[:0]
		}
	}
	return time.Since(begun), nil
}

// bare returns a function that writes rows in one transaction, the last of which has the number given.
func (d *database) bare(ctx context.Context) (write func(last int, rows [][]byte) error, done func(), err error) {
	const create = `CREATE TABLE bare (n integer PRIMARY KEY, record text NOT NULL)`
	if d.path == "" {
		conn, err := pgx.Connect(ctx, d.url)
		if err != nil {
			return nil, nil, err
		}
		_, err = conn.Exec(ctx, create)
		return func(last int, rows [][]byte) error {
			return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
				b := &pgx.Batch{}
				for i, text := range rows {
					b.Queue(`INSERT INTO bare VALUES ($1, $2)`, last-len(rows)+1+i, string(text))
				}
				return tx.SendBatch(ctx, b).Close()
			})
		}, func() { _ = conn.Close(context.Background()) }, err
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(filepath.Dir(d.path), "bare.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)")
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(ctx, create)
	return func(last int, rows [][]byte) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // does nothing after the commit
		insert, err := tx.PrepareContext(ctx, `INSERT INTO bare VALUES (?, ?)`)
		if err != nil {
			return err
		}
		for i, text := range rows {
			if _, err := insert.ExecContext(ctx, last-len(rows)+1+i, string(text)); err != nil {
				return err
			}
		}
		return tx.Commit()
	}, func() { _ = db.Close() }, err
}
