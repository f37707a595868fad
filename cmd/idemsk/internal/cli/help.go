package cli

import (
	"flag"
	"fmt"
	"strings"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

func help(args []string, s Streams) int {
	if len(args) == 0 {
		return s.print(overview())
	}
	v, ok := findVerb(args[0])
	if !ok || len(args) > 1 {
		s.sayf("idemsk help: there is no verb %s: see idemsk help\n", term.Escape(strings.Join(args, " ")))
		return exitUsage
	}
	return s.print(v.help())
}

func overview() string {
	var t term.Table
	for _, v := range verbs() {
		t.Row("  "+v.name, v.short)
	}
	t.Row("  help VERB", "flags and examples")
	t.Row("  version", "the version of this tool")
	return "idemsk runs idempotent MSK functions on this machine, and manages their entries, dead letters and outboxes.\n\n" +
		"usage: idemsk VERB [flags] [arguments]\n\n" + t.String() +
		"\nexit status: 0 success, 1 failure (or a wrong ledger), 2 usage error\n"
}

// help returns the verb's help page.
func (v verb) help() string {
	var b strings.Builder
	fmt.Fprintf(&b, "usage: %s\n\n%s\n", strings.TrimSpace("idemsk "+v.name+" [flags] "+v.args), strings.TrimSpace(v.about))
	fs := flag.NewFlagSet(v.name, flag.ContinueOnError)
	v.flags(fs)
	b.WriteString("\nflags:\n")
	fs.VisitAll(func(f *flag.Flag) { b.WriteString(flagHelp(f)) })
	b.WriteString("\nexamples:\n")
	for _, e := range v.examples {
		b.WriteString("  " + e + "\n")
	}
	return b.String()
}

func flagHelp(f *flag.Flag) string {
	value, usage := flag.UnquoteUsage(f)
	line := "  --" + f.Name
	if value != "" {
		line += " " + value
	}
	if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" {
		usage += " (default " + f.DefValue + ")"
	}
	return line + "\n        " + strings.ReplaceAll(usage, "\n", "\n        ") + "\n"
}
