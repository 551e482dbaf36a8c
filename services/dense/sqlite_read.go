package dense

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// readRows is the number of vectors per read, about two milliseconds.
const readRows = 512

// refresh returns a namespace's vectors up to now. It stops after half of ctx's time and returns what it has read. The
// next search continues, so a large namespace takes several searches.
func (s *SQLite) refresh(ctx context.Context, namespace string, now state, dimensions int) (matrix, error) {
	e, m := s.cache.use(namespace)
	if m.readTo >= now.lastID && !mostlyDeleted(m, now) {
		return m, nil
	}
	until := share(ctx, 0.5)
	var timeout <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-timeout:
		return s.cache.view(e), nil
	case <-ctx.Done():
		return matrix{}, ctx.Err()
	}
	m = s.cache.view(e) // another search may have changed it
	if mostlyDeleted(m, now) {
		var err error
		if m, err = s.compact(ctx, namespace, m, now, dimensions); err != nil {
			return matrix{}, err
		}
		s.cache.put(e, m, s.MaxBytes)
	}
	for m.readTo < now.lastID && !passed(until) {
		var err error
		if m, err = s.read(ctx, namespace, m, now, dimensions); err != nil {
			return matrix{}, err
		}
		s.cache.put(e, m, s.MaxBytes)
	}
	return m, nil
}

// mostlyDeleted reports whether a matrix should be compacted. Deleted vectors are harmless: the database no longer
// returns them.
func mostlyDeleted(m matrix, now state) bool {
	return int64(len(m.ids))-now.vectors > max(1024, int64(len(m.ids))/4)
}

// compact returns the matrix without deleted vectors.
func (s *SQLite) compact(ctx context.Context, namespace string, m matrix, now state, dimensions int) (matrix, error) {
	rows, err := s.db.Read.QueryContext(ctx, `SELECT id FROM dense_vectors WHERE namespace = ? AND model_id = ? AND id <= ? ORDER BY id`,
		namespace, s.model, m.readTo)
	if err != nil {
		return matrix{}, err
	}
	ids, err := scanIDs(rows)
	if err != nil {
		return matrix{}, err
	}
	kept := m.rows(ids)
	compacted := newMatrix(len(kept), dimensions, m.halves != nil)
	compacted.readTo = m.readTo
	words := codeWords(dimensions)
	for _, r := range kept {
		row := int(r)
		compacted.ids = append(compacted.ids, m.ids[row])
		compacted.signs = append(compacted.signs, m.signs[row*words:(row+1)*words]...)
		compacted.sizes = append(compacted.sizes, m.sizes[row*words:(row+1)*words]...)
		compacted.spans = append(compacted.spans, m.spans[row])
		if m.halves != nil {
			compacted.halves = append(compacted.halves, m.halves[row*dimensions:(row+1)*dimensions]...)
			compacted.scales = append(compacted.scales, m.scales[row])
		}
	}
	return compacted, nil
}

// read returns the matrix with the next vectors added.
func (s *SQLite) read(ctx context.Context, namespace string, m matrix, now state, dimensions int) (matrix, error) {
	whole := matrixBytes(now.vectors, dimensions) <= s.MaxBytes
	if len(m.ids) == 0 {
		readTo := m.readTo
		m = newMatrix(int(now.vectors), dimensions, whole)
		m.readTo = readTo
	} else if !whole {
		m.halves, m.scales = nil, nil // they no longer fit
	}
	rows, err := s.db.Read.QueryContext(ctx, `
		SELECT id, embedding FROM dense_vectors WHERE namespace = ? AND model_id = ? AND id > ? ORDER BY id LIMIT ?`,
		namespace, s.model, m.readTo, readRows)
	if err != nil {
		return matrix{}, err
	}
	n, queried := 0, s.embedder.Model().Queried()
	spare := make([]uint16, 0, dimensions)
	err = scanRows(rows, func() error {
		var embedding sql.RawBytes
		if err := rows.Scan(&m.readTo, &embedding); err != nil {
			return err
		}
		to := m.halves
		if to == nil {
			to = spare
		}
		halves, scale, err := appendHalves(to, embedding, dimensions)
		if err != nil {
			return fmt.Errorf("vector %d: %w", m.readTo, err)
		}
		if m.halves != nil {
			m.halves, m.scales = halves, append(m.scales, scale)
		}
		m.add(m.readTo, halves[len(halves)-dimensions:], queried)
		n++
		return nil
	})
	if err != nil {
		return matrix{}, err
	}
	if n < readRows {
		m.readTo = max(m.readTo, now.lastID) // the vectors up to lastID were deleted
	}
	return m, nil
}
