package backend

import "context"

// Fill lets the file grow no more.
func (b *Backend) Fill(ctx context.Context) error {
	_, err := b.store.File.Write.ExecContext(ctx, `PRAGMA max_page_count = 1`) // is raised to what there is
	return err
}
