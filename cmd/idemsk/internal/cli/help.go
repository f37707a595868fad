package cli

import (
	"strings"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/cmd/internal/release"
)

func help(args []string, s Streams, version string) int {
	if len(args) == 0 {
		return write(s, overview()+guide(version))
	}
	v, ok := findVerb(args[0])
	if !ok || len(args) > 1 {
		return refuseVerb(s, strings.Join(args, " "))
	}
	return write(s, page(&v, version))
}

// page returns the page of help of a verb, which names pages of the guide by their titles.
func page(v *command.Verb, version string) string { return v.Page() + guide(version) }

func guide(version string) string { return "\nThe guide: " + release.Guide(version) + "\n" }

func overview() string {
	var t term.Table
	for _, v := range verbs() {
		t.Row("  "+v.Name, v.Short)
	}
	t.Row("  help VERB", "flags and examples")
	t.Row("  version", "the version of this tool")
	return "idemsk runs idempotent MSK functions on this machine, and manages their entries, dead letters " +
		"and outboxes.\n\n" +
		"usage: idemsk VERB [flags] [arguments]\n\n" + t.String() +
		"\nexit status: 0 success, 1 failure (or a wrong ledger), 2 usage error\n"
}
