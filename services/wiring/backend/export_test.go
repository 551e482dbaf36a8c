package backend

import "context"

// Fill lets the file grow no more.
func (b *SQLite) Fill(ctx context.Context) error {
	_, err := b.db.Write.ExecContext(ctx, `PRAGMA max_page_count = 1`) // is raised to what there is
	return err
}
