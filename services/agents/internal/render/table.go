package render

import (
	"strings"
)

// columnGap is between two columns.
const columnGap = 2

// leastColumn is what a column keeps that gives way to others.
const leastColumn = 8

// Column is one of a table's.
type Column struct {
	Name  string
	Right bool                // numbers end at the right
	Gives bool                // it is shortened if the table is wider than the terminal
	Paint func(string) string // may be nil; gets the padded text
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

// Table draws a table. On a terminal it is as wide as that at most; elsewhere nothing is shortened.
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
	header := make([]string, len(t.Columns))
	for i, column := range t.Columns {
		header[i] = column.Name
	}
	b.WriteString(s.Bold(strings.TrimRight(row(t, widths, header, nil), " ")) + "\n")
	for _, cells := range t.rows {
		b.WriteString(strings.TrimRight(row(t, widths, cells, func(i int, text string) string {
			if paint := t.Columns[i].Paint; paint != nil {
				return paint(text)
			}
			return text
		}), " ") + "\n")
	}
	return b.String()
}

func row(t Table, widths []int, cells []string, paint func(int, string) string) string {
	parts := make([]string, len(cells))
	for i, text := range cells {
		if missing := widths[i] - columns(text); t.Columns[i].Right && missing > 0 {
			text = strings.Repeat(" ", missing) + text
		}
		text = fit(text, widths[i])
		if i == len(cells)-1 {
			text = strings.TrimRight(text, " ")
		}
		if paint != nil {
			text = paint(i, text)
		}
		parts[i] = text
	}
	return strings.Join(parts, strings.Repeat(" ", columnGap))
}

// narrow takes from the widest of the columns that give way until the table fits, or nothing is left to take.
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
