package words_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/internal/text/words"
)

func TestSplit(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"./bootstrap": "./bootstrap", "  a  b\tc\n": "a|b|c", `python3 -m 'a b' "c d"`: "python3|-m|a b|c d",
		`a\ b "c\"d" 'e\f' "g\h"`: `a b|c"d|e\f|g\h`, `a "" ''`: "a||", `x'y'"z"`: "xyz",
		`$HOME *`: "$HOME|*",
	} {
		got, err := words.Split(command)
		if err != nil || strings.Join(got, "|") != want {
			t.Errorf("%s: %q, %v; want %s", command, got, err, want)
		}
	}
	for _, command := range []string{"", "  ", "'a", `"a`, `a\`} {
		if got, err := words.Split(command); err == nil {
			t.Errorf("%q gave %s", command, fmt.Sprint(got))
		}
	}
}

// A word that is quoted stays one word.
func TestQuote(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"", "a b", `it's "quoted"`, `back\slash`, "$HOME"} {
		got, err := words.Split("before " + words.Quote(word))
		if err != nil || len(got) != 2 || got[1] != word {
			t.Errorf("%q: %q, %v", word, got, err)
		}
	}
}
