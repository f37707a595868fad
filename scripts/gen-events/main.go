// Gen-events writes the sample MSK events in events/ and their README.
//
//	go run ./scripts/gen-events                                            rewrite events/
//	go run ./scripts/gen-events -check                                     fail if a file in events/ would change
//	go run ./scripts/gen-events -near-6mb .cache/events/near-6-mb.json     write the event that is too large to commit
//
// It runs from the repository's root. Every run writes the same bytes: timestamps, offsets and keys are fixed. To add a sample,
// add an entry to a samples_*.go file, which also defines its row in the README.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

// eventsDir is where the samples live, seen from the repository's root.
const eventsDir = "events"

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gen-events:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("gen-events", flag.ContinueOnError)
	checkOnly := flags.Bool("check", false, "compare events/ with what would be written, write nothing")
	bigPath := flags.String("near-6mb", "", "write the event near the 6 MB limit to this `file`, and nothing else")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q: see -h", flags.Arg(0))
	case *checkOnly && *bigPath != "":
		return errors.New("-check and -near-6mb exclude each other: the large event is never committed")
	case *bigPath != "":
		return writeNear6MB(*bigPath, out)
	case *checkOnly:
		return check(eventsDir)
	default:
		return write(eventsDir, out)
	}
}
