package lexical

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// foldPause is how long Fold waits when nothing is due, at first and at most after failures.
const foldPause, foldMaxPause = time.Second, time.Minute

// Fold moves postings that writers left behind one by one into blocks, until ctx ends. Searches find them either way;
// in blocks they take less room and time. Any number of programs may do this at once.
func Fold(ctx context.Context, pool *pgxpool.Pool, log *slog.Logger) {
	pause := foldPause
	for {
		var folded pgtype.Text
		err := pool.QueryRow(ctx, "SELECT lexical.fold_next()").Scan(&folded)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			log.WarnContext(ctx, "the lexical index was not folded", "retry_in", pause.String(), "error", err.Error())
		case folded.Valid:
			pause = foldPause
			continue
		default:
			pause = foldPause
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if err != nil {
			pause = min(2*pause, foldMaxPause)
		}
	}
}
