package app

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
)

// ours is what the names of this project's variables begin with.
const ours = "IDEMSK_"

// WarnUnread logs a line for each IDEMSK_ variable of the environment that is set and that nobody has asked v for, with the name
// that was perhaps meant: one that is misspelt leaves its default in force without a word. Call it when all have been read; it
// can't know of those that a handler looks up by itself.
func (v *Vars) WarnUnread(ctx context.Context, logger *slog.Logger) {
	if v.environ == nil {
		return
	}
	for _, name := range v.unread(v.environ()) {
		attrs := []slog.Attr{slog.String("variable", name)}
		if near := nearest(name, slices.Sorted(maps.Keys(v.asked))); near != "" {
			attrs = append(attrs, slog.String("perhaps", near))
		}
		logger.LogAttrs(ctx, slog.LevelWarn, name+" is set, but the configuration does not read it: is the name misspelt?", attrs...)
	}
}

// unread returns the names in order.
func (v *Vars) unread(environ []string) []string {
	var names []string
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, ours) && value != "" && !v.asked[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// nearest returns the candidate with the fewest mistakes in it, the first of several; none where more than a third of the name
// would be mistaken.
func nearest(name string, candidates []string) string {
	const share = 3
	best, fewest := "", (len(name)-len(ours)+share-1)/share+1
	for _, c := range candidates {
		if n := mistakes(name, c); n < fewest {
			best, fewest = c, n
		}
	}
	return best
}

// mistakes is the Levenshtein distance: how many bytes must be inserted, left out or replaced to make b of a.
func mistakes(a, b string) int {
	row := make([]int, len(b)+1) // of a's first bytes to each beginning of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
