package render

import (
	"strings"

	"github.com/triskele/triskele/fuser/platform/slice"
)

const (
	columnGap   = 2 // spaces between two columns
	leastColumn = 8 // that a column is shortened to
)

// Column describes a column of a table.
type Column struct {
	Name  string
	Right bool                // aligned to the right, as numbers are
	Gives bool                // shortened if the table is wider than the terminal
	Paint func(string) string // colours the padded text; may be nil
}

// Table is rows of short texts below the names of their columns.
type Table struct {
	Columns []Column
	rows    [][]string
}

// Add appends a row, one text for each column.
func (t *Table) Add(cells ...string) {
	for i := range cells {
		cells[i] = Plain(cells[i])
	}
	t.rows = append(t.rows, cells)
}

// Table draws a table. On a terminal it shortens cells until the table fits. Elsewhere it shortens nothing.
func (s Style) Table(t Table) string {
	widths := make([]int, len(t.Columns))
	for i, column := range t.Columns {
		widths[i] = columns(column.Name)
		for _, row := range t.rows {
			widths[i] = max(widths[i], columns(row[i]))
		}
	}
	if s.Terminal {
		s.narrow(t, widths)
	}
	var b strings.Builder
	header := slice.Map(t.Columns, func(c Column) string { return c.Name })
	b.WriteString(s.Bold(row(t, widths, header, false)) + "\n")
	for _, cells := range t.rows {
		b.WriteString(row(t, widths, cells, true) + "\n")
	}
	return b.String()
}

func row(t Table, widths []int, cells []string, painted bool) string {
	parts := make([]string, len(cells))
	for i, text := range cells {
		if missing := widths[i] - columns(text); t.Columns[i].Right && missing > 0 {
			text = strings.Repeat(" ", missing) + text
		}
		text = fit(text, widths[i])
		if i == len(cells)-1 {
			text = strings.TrimRight(text, " ")
		}
		if paint := t.Columns[i].Paint; painted && paint != nil {
			text = paint(text)
		}
		parts[i] = text
	}
	return strings.TrimRight(strings.Join(parts, strings.Repeat(" ", columnGap)), " ")
}

// narrow takes one column at a time from the widest that gives, until the table fits or no column can give more.
func (s Style) narrow(t Table, widths []int) {
	total := columnGap * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	for ; total > s.width(); total-- {
		widest := -1
		for i, w := range widths {
			if t.Columns[i].Gives && w > leastColumn && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}
