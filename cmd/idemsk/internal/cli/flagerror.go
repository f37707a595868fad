package cli

import (
	"flag"
	"fmt"
	"regexp"
	"strings"

	"github.com/idemsk/idemsk/internal/text/near"
)

// The errors of package flag, which has no types for them.
var (
	noSuchFlag = regexp.MustCompile(`^flag provided but not defined: -(\S*)$`)
	badValue   = regexp.MustCompile(`^invalid (?:boolean )?value (".*") for (?:flag )?-(\S+): (?:parse error|value out of range)$`)
)

// explained returns an error of package flag with the flag that was probably meant, or with what the flag wants.
func explained(fs *flag.FlagSet, err error) error {
	text := err.Error()
	if m := noSuchFlag.FindStringSubmatch(text); m != nil {
		var names []string
		fs.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
		return fmt.Errorf("there is no flag --%s%s", m[1], meant("--", m[1], names))
	}
	if m := badValue.FindStringSubmatch(text); m != nil {
		if f := fs.Lookup(m[2]); f != nil {
			name, usage := flag.UnquoteUsage(f)
			return fmt.Errorf("--%s is %s: want --%s %s: %s", m[2], m[1], m[2], name, strings.Join(strings.Fields(usage), " "))
		}
	}
	return err
}

// meant returns a question for the candidate that is most like a name, "" if none is.
func meant(prefix, name string, candidates []string) string {
	if like := near.Of(name, "", candidates); like != "" {
		return ": is " + prefix + like + " meant?"
	}
	return ""
}
