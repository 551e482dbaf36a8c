// Package measure is what the benchmark programs share: a database of their own, and percentiles.
package measure

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/schema"
)

// Database creates a database with the whole schema on a server. drop, which is never nil, removes it.
func Database(ctx context.Context, server string, tel *telemetry.Service) (pool *pgxpool.Pool, drop func(), err error) {
	drop = func() {}
	admin, err := pgx.Connect(ctx, server)
	if err != nil {
		return nil, drop, err
	}
	name := "bench_" + strings.ReplaceAll(uuid.New().String(), "-", "")
	drop = func() {
		if pool != nil {
			pool.Close()
		}
		ctx := context.WithoutCancel(ctx) // also after an interrupt
		_, _ = admin.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
		_ = admin.Close(ctx)
	}
	if _, err := admin.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return nil, drop, err
	}
	u := admin.Config()
	if pool, err = postgres.Open(ctx, fmt.Sprintf("host=%s port=%d user=%s password='%s' dbname=%s", u.Host, u.Port, u.User, u.Password, name), tel); err != nil {
		return nil, drop, err
	}
	db := postgres.SQL(pool)
	_, err = schema.Up(ctx, db, schema.Postgres)
	_ = db.Close()
	pool.Reset() // the connections of before do not know the extension's types
	return pool, drop, err
}
