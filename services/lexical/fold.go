package lexical

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// foldPause is the time Fold waits when nothing is due. After failures the pause doubles, up to foldMaxPause.
const foldPause, foldMaxPause = time.Second, time.Minute

// Fold moves the single postings that writers add into blocks, until ctx ends. Searches find postings in either form; blocks
// take less space and time. Several programs may fold at the same time.
func Fold(ctx context.Context, pool *pgxpool.Pool, log *slog.Logger) {
	pause := foldPause
	for {
		var folded pgtype.Text
		err := pool.QueryRow(ctx, "SELECT lexical.fold_next()").Scan(&folded)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			log.WarnContext(ctx, "cannot fold the lexical index", "retry_in", pause.String(), "error", err.Error())
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
