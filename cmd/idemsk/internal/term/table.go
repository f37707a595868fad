package term

import (
	"strings"
	"unicode/utf8"
)

// KeyWidth is the width of a column of keys, in runes.
const KeyWidth = 60

// Table is text in columns.
type Table struct {
	rows  [][]string
	right map[int]bool
}

// Row adds a row. Cells are escaped.
func (t *Table) Row(cells ...string) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = Escape(c)
	}
	t.rows = append(t.rows, row)
}

// Right aligns columns, counted from 0, to the right.
func (t *Table) Right(columns ...int) {
	if t.right == nil {
		t.right = make(map[int]bool)
	}
	for _, c := range columns {
		t.right[c] = true
	}
}

// Len returns the number of rows.
func (t *Table) Len() int { return len(t.rows) }

const columnGap = "  "

// String formats the table. Lines have no trailing blanks.
func (t *Table) String() string {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			if i > 0 {
				line.WriteString(columnGap)
			}
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if t.right[i] {
				line.WriteString(pad + cell)
			} else {
				line.WriteString(cell + pad)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}
