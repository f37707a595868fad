// Package flagerror says what is wrong with a command line.
package flagerror

import (
	"flag"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/idemsk/idemsk/internal/text/near"
	"github.com/idemsk/idemsk/internal/text/redact"
)

// The errors of package flag, which has no types for them.
var (
	noSuchFlag = regexp.MustCompile(`^flag provided but not defined: -(\S*)$`)
	badValue   = regexp.MustCompile(`^invalid (?:boolean )?value (".*") for (?:flag )?-(\S+): (?:parse error|value out of range)$`)
)

// Explain returns an error of package flag with the flag that was probably meant, or with what the flag
// wants. It returns any other error as it is.
func Explain(fs *flag.FlagSet, err error) error {
	text := err.Error()
	if m := noSuchFlag.FindStringSubmatch(text); m != nil {
		var names []string
		fs.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
		return fmt.Errorf("there is no flag --%s%s", redact.Text(m[1]), Meant("--", m[1], names))
	}
	if m := badValue.FindStringSubmatch(text); m != nil {
		if f := fs.Lookup(m[2]); f != nil {
			name, usage := flag.UnquoteUsage(f)
			want := strings.Join(strings.Fields("--"+f.Name+" "+name), " ")
			if usage != "" {
				want += ": " + strings.Join(strings.Fields(usage), " ")
			}
			value, _ := strconv.Unquote(m[1]) // the package has quoted it
			return fmt.Errorf("--%s is %q: want %s", f.Name, redact.Text(value), want)
		}
	}
	return err
}

// Meant returns a question for the candidate that is most like a name, "" if none is.
func Meant(prefix, name string, candidates []string) string {
	if like := near.Of(name, "", candidates); like != "" {
		return ": is " + prefix + like + " meant?"
	}
	return ""
}
