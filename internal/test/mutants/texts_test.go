package mutants_test

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// textMutant is a file with one change of a text that a server evaluates.
type textMutant struct {
	name string // the line, the text before and after; unique in the file
	text string // of the changed file
}

// replacement is a change of the matches of an expression. The first group is replaced, or all if there is
// none.
type replacement struct {
	match *regexp.Regexp
	by    string
}

func replace(match, by string) replacement { return replacement{regexp.MustCompile(match), by} }

// luaChanges are changes of the operators of a script, of its constants, and of whole statements.
var luaChanges = []replacement{
	replace(` (==) `, "~="), replace(` (~=) `, "=="), replace(` (>=) `, ">"), replace(` (<) `, "<="),
	replace(` (>) `, ">="),
	replace(` (and) `, "or"), replace(` (or) `, "and"), replace(`\bnot `, ""), replace(` (\+) `, "-"),
	replace(` (-) `, "+"),
	replace(` (<=) `, "<"), replace(`[ (](ceil)\(\(`, "math.floor"), replace(`, (-1)\)`, "1"), replace(`'(1)'`, "2"), replace(` (0)\)`, "1"),
	replace(`^ *((?:redis\.call|call|save)\(.*\))$`, ""), replace(`^ *(if .* then .* end)`, ""),
}

// sqlChanges are changes of the operators and conditions of a statement.
var sqlChanges = []replacement{
	replace(` (<=) `, "<"), replace(` (<>) `, "="), replace(` (AND) `, "OR"), replace(`\bNOT \(`, "("),
	replace(` (<) `, "<="), replace(` (>) `, ">="), replace(` (>=) `, ">"),
	replace(`\b(NOT )(?:EXISTS|IN)\b`, ""),
	replace(`IS (NULL)`, "NOT NULL"), replace(`IS (NOT NULL)`, "NULL"), replace(`[^\x60] (\+) [^\x60]`, "-"),
	replace(`[^\x60] (-) [^\x60]`, "+"),
	replace(`(?:WHERE|WHEN|AND|\()[^=,]* (=) `, "<>"),
	replace(` AND [a-z_.]+ (?:=|<>|<=|<|>|IS) [^ )]+(?: NULL)?`, ""), replace(`^\s*(WHEN .*)$`, ""),
	replace(`(FOR UPDATE OF t)`, ""), replace(`( SKIP LOCKED)`, ""),
	replace(`coalesce\(\$\d(, [a-z_.]+)\)`, ""), replace(` (1)\b`, "2"), replace(` (0) `, "1"),
}

// holdAndWait are the drafts of the scheduler that docs/spec/batch.tla refuses: a lane that waits keeps its
// other claims (b_deadlock), one that stops keeps them too, or the attempts of those that have not begun stay
// counted (b_headfails).
var holdAndWait = []replacement{
	replace(`^\s*(l\.unclaim\(\))$`, ""), replace(`^\s*(set\.Refund = true)$`, ""),
}

// changes returns every mutant of a file. Of a file with SQL, only raw strings are changed. Comments of SQL
// are not.
func changes(source string, of []replacement, isSQL bool) (all []textMutant) {
	seen, offset, raw := make(map[string]int), 0, false
	for line := range strings.Lines(source) {
		from, to := 0, len(strings.TrimRight(line, "\n"))
		if isSQL {
			from, to, raw = rawPart(line[:to], raw)
		}
		if i := strings.Index(line[from:to], "-- "); i >= 0 {
			to = from + i
		}
		for _, r := range of {
			for _, m := range r.match.FindAllStringSubmatchIndex(line[from:to], -1) {
				at := m[max(0, len(m)-2):]
				old := line[from+at[0] : from+at[1]]
				name := short(line[:to]) + ": " + short(old) + " => " + cmp.Or(r.by, "nothing")
				if seen[name]++; seen[name] > 1 {
					name += " #" + strconv.Itoa(seen[name])
				}
				all = append(all, textMutant{name,
					source[:offset+from+at[0]] + r.by + source[offset+from+at[1]:]})
			}
		}
		offset += len(line)
	}
	return all
}

// rawPart returns the part of a line that is in a raw string of Go: up to the last backquote, or from the
// first one. inside tells whether the line begins, and then whether it ends, inside of a raw string.
func rawPart(line string, inside bool) (from, to int, after bool) {
	quotes := strings.Count(line, "`")
	if after = inside != (quotes%2 == 1); quotes == 0 && !inside {
		return 0, 0, after
	}
	if to = len(line); !after && quotes > 0 {
		to = strings.LastIndex(line, "`")
	}
	if !inside {
		from = strings.Index(line, "`") + 1
	}
	return from, max(from, to), after
}

func TestChangesOfTexts(t *testing.T) {
	const lua = "if a == b and not c then return 1 end -- and or\n  redis.call('DEL', key)\n"
	const sql = "x := a == b\nconst q = `SELECT 1 WHERE a = $1 AND b <= now\n\tWHEN status = 'x' THEN y\n`+ c + `x IS NULL` // AND\n"
	for _, tc := range []struct {
		file, source string
		of           []replacement
		want         []string
	}{
		{"x.lua", lua, luaChanges, []string{
			"if a == b and not c then return 1 end: == => ~=",
			"if a == b and not c then return 1 end: and => or",
			"if a == b and not c then return 1 end: not => nothing",
			"if a == b and not c then return 1 end: if a == b and not c then return 1 end => nothing",
			"redis.call('DEL', key): redis.call('DEL', key) => nothing",
		}},
		{"x.go", sql, sqlChanges, []string{
			"const q = `SELECT 1 WHERE a = $1 AND b <= now: <= => <",
			"const q = `SELECT 1 WHERE a = $1 AND b <= now: AND => OR",
			"const q = `SELECT 1 WHERE a = $1 AND b <= now: = => <>",
			"const q = `SELECT 1 WHERE a = $1 AND b <= now: AND b <= now => nothing",
			"const q = `SELECT 1 WHERE a = $1 AND b <= now: 1 => 2",
			"WHEN status = 'x' THEN y: = => <>",
			"WHEN status = 'x' THEN y: WHEN status = 'x' THEN y => nothing",
			"`+ c + `x IS NULL: NULL => NOT NULL",
		}},
	} {
		var names []string
		for _, m := range changes(tc.source, tc.of, tc.file == "x.go") {
			if names = append(names, m.name); m.text == tc.source {
				t.Errorf("%s changes nothing", m.name)
			}
		}
		if !slices.Equal(names, tc.want) {
			t.Errorf("%s: changes\n%s\nwant\n%s", tc.file, strings.Join(names, "\n"),
				strings.Join(tc.want, "\n"))
		}
	}
}
