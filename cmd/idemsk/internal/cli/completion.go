package cli

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
)

const completionHelp = `usage: idemsk completion bash|zsh

Prints a script with which the shell completes verbs and flags.

flags:

examples:
  source <(idemsk completion bash)            # in ~/.bashrc
  source <(idemsk completion zsh)             # in ~/.zshrc, behind compinit
`

func completionVerb() command.Verb {
	return command.Verb{
		Name: "completion", Short: "prints a script for the shell, which completes verbs and flags",
		Help: completionHelp,
		Flags: func(*flag.FlagSet) command.Action {
			return func(_ context.Context, s Streams, args []string) error {
				if len(args) != 1 || args[0] != "bash" && args[0] != "zsh" {
					return command.Usagef("want one argument: bash or zsh")
				}
				script := completionScript()
				if args[0] == "zsh" {
					script = "autoload -Uz bashcompinit && bashcompinit\n" + script
				}
				_, err := io.WriteString(s.Out, script)
				return err
			}
		},
	}
}

// completionScript returns the script for bash, which zsh's bashcompinit understands.
func completionScript() string {
	names := []string{"help", "version"}
	var cases strings.Builder
	for _, v := range verbs() {
		names = append(names, v.Name)
		fs := flag.NewFlagSet(v.Name, flag.ContinueOnError)
		v.Flags(fs)
		var flags []string
		fs.VisitAll(func(f *flag.Flag) { flags = append(flags, "--"+f.Name) })
		fmt.Fprintf(&cases, "    %s) words=%q ;;\n", v.Name, strings.Join(flags, " "))
	}
	return `_idemsk() {
  local cur=${COMP_WORDS[COMP_CWORD]} verbs="` + strings.Join(names, " ") + `" words=
  if [ "$COMP_CWORD" -eq 1 ]; then
    words=$verbs
  else
    case ${COMP_WORDS[1]} in
    help) words=$verbs ;;
` + cases.String() + `    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F _idemsk idemsk
`
}
