package jsonschema

import (
	"errors"
	"regexp"
	"time"

	"github.com/dlclark/regexp2/v2"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The patterns of JSON Schema are those of ECMAScript. The package regexp matches in a time that grows with the
// text, but has no lookahead, lookbehind, references to groups, or repetitions above 1,000, and reads some patterns
// otherwise. Patterns with these are matched by backtracking, which can take exponential time: it is bounded.
const (
	patternTime = time.Second // of all patterns with backtracking, for one value

	// A pattern within these bounds is compiled in about 50 ms at most.
	maxPattern = 5000
	maxGroups  = 30 // in each other
)

var (
	errLargePattern = errors.New("a pattern that needs backtracking has more than 5000 characters, or 30 groups in each other")
	errPatternTime  = errors.New("the patterns of the schema that need backtracking take longer than 1 s, or too much memory")
)

// pattern compiles a pattern. It is a jsonschema.RegexpEngine.
func (s *steps) pattern(text string) (jsonschema.Regexp, error) {
	re2, ok, err := linear(text)
	if err != nil {
		return nil, err
	}
	if compiled, err := regexp.Compile(re2); ok && err == nil {
		return compiled, nil
	}
	if len(text) > maxPattern || groups(text) > maxGroups {
		return nil, errLargePattern
	}
	compiled, err := regexp2.Compile(text, regexp2.ECMAScript|regexp2.Unicode)
	if err != nil {
		return nil, err
	}
	return &backtracking{compiled, s}, nil
}

// groups returns how many groups are in each other. It counts parentheses, also those that are escaped.
func groups(pattern string) (most int) {
	open := 0
	for i := range len(pattern) {
		switch pattern[i] {
		case '(':
			open++
		case ')':
			open--
		}
		most = max(most, open)
	}
	return most
}

// backtracking is a pattern that is matched by backtracking.
type backtracking struct {
	*regexp2.Regexp

	steps *steps
}

// MatchString implements jsonschema.Regexp. The caller has the lock of the steps.
func (b *backtracking) MatchString(text string) bool {
	for b.steps.patterns > 0 {
		began := time.Now()
		b.MatchTimeout = b.steps.patterns
		matches, err := b.Regexp.MatchString(text)
		b.steps.patterns -= time.Since(began)
		switch {
		case err == nil:
			return matches
		case errors.Is(err, regexp2.ErrBacktrackingStackLimit):
			panic(errPatternTime)
		}
		// The clock of the library jumps after the process was frozen. The time is over if ours says so.
	}
	panic(errPatternTime)
}
