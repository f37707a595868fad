package cli

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/replay"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

func replayVerb() verb {
	return verb{
		name: "replay", args: "[FILES…]", short: "plays MSK events to the real function, and checks the ledger to the cent",
		about: `
Runs the built function with a Lambda Runtime API of its own and plays MSK events to it as the event source mapping would:
first each of the FILES (a folder stands for its *.json in order), then a generated stream of payments. A batch is delivered
until it is settled, settled batches come again, and the process is killed now and then, just before an effect. At the end
every record must have been settled, and the ledger must hold every payment exactly once: if not, the exit status is 1.

DynamoDB and SQS are in this process (--store fake), LocalStack (--store localstack: at AWS_ENDPOINT_URL, or else
http://127.0.0.1:4566), or whatever listens at a URL. Tables and queues are made for the run, and deleted.`,
		examples: []string{
			"idemsk replay --compare events/*.json",
			"idemsk replay --records 1000 --kills 10 --seed 7",
			"idemsk replay --records 0 --env IDEMSK_MAX_ATTEMPTS=2 events/always-fails-retriable.json",
			"idemsk replay --store localstack --records 500 --batch-size 100 events",
		},
		flags: func(fs *flag.FlagSet) action {
			var r replayCommand
			r.declare(fs)
			return r.run
		},
	}
}

type replayCommand struct {
	opt     replay.Options
	logFile string
	json    bool
}

func (r *replayCommand) declare(fs *flag.FlagSet) {
	o := &r.opt
	fs.StringVar(&o.Function, "function", "", "the function's `PROGRAM` (default dist/handler-<arch>/bootstrap next to the tool)")
	fs.StringVar(&o.Store, "store", replay.StoreFake, "`WHERE` DynamoDB and SQS are: fake, localstack or a URL")
	fs.IntVar(&o.Stream.Records, "records", 10_000, "`N` records to generate")
	fs.IntVar(&o.Stream.Partitions, "partitions", 6, "their `N` partitions")
	fs.IntVar(&o.Stream.BatchSize, "batch-size", 500, "`N` records in a batch")
	fs.Uint64Var(&o.Stream.Seed, "seed", 0, "a `SEED` gives the same stream again (default: another one each time)")
	fs.Float64Var(&o.Duplicates, "duplicates", 0.3, "the `CHANCE` that a settled batch is delivered again")
	fs.IntVar(&o.Kills, "kills", 3, "kill the process `N` times, just before an effect")
	fs.BoolVar(&o.Compare, "compare", false, "play the same without idemsk too, and show the difference")
	fs.IntVar(&o.MaxDeliveries, "max-deliveries", 10, "give a batch up after `N` deliveries, as an event source with an on-failure destination does")
	fs.DurationVar(&o.Timeout, "timeout", 2*time.Minute, "the function's `TIMEOUT`")
	fs.Func("env", "a `NAME=VALUE` for the function, over what replay sets; may be given again", func(text string) error {
		o.Env = append(o.Env, text)
		return nil
	})
	fs.StringVar(&r.logFile, "log", "", "the `FILE` for what the function prints (default: a temporary one, kept if the run fails)")
	fs.BoolVar(&r.json, "json", false, "print the report as JSON")
}

func (r *replayCommand) run(ctx context.Context, s Streams, args []string) (err error) {
	if r.opt.Stream.Seed == 0 {
		r.opt.Stream.Seed = uint64(rand.Uint32()) + 1 //nolint:gosec // a seed is no secret
	}
	if err := r.resolve(args); err != nil {
		return err
	}
	log, err := openLog("replay", r.logFile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.close(err != nil && ctx.Err() == nil, s)) }()
	r.opt.Log = log
	r.opt.Progress = func(line func() string) func() { return term.StartProgress(s.Err, line).Stop }
	report, err := replay.Run(ctx, r.opt)
	switch {
	case errors.Is(err, replay.ErrOptions):
		return &usageError{err}
	case err != nil:
		return err
	}
	return r.print(s, report)
}

func (r *replayCommand) print(s Streams, report *replay.Report) (err error) {
	if r.json {
		err = printJSON(s, report, "  ")
	} else {
		_, err = fmt.Fprint(s.Out, report.Text())
	}
	if err == nil && !report.OK {
		return errReported
	}
	return err
}

// resolve finds the function and the store, and reads the files.
func (r *replayCommand) resolve(args []string) (err error) {
	if r.opt.Store == "localstack" {
		r.opt.Store = cmp.Or(os.Getenv("AWS_ENDPOINT_URL"), "http://127.0.0.1:4566")
	}
	if r.opt.Function == "" {
		if r.opt.Function, err = replay.FindFunction(""); err != nil {
			return err
		}
	}
	paths, err := eventFiles(args)
	if err != nil {
		return err
	}
	for _, path := range paths {
		payload, err := os.ReadFile(path) //nolint:gosec // named by the user
		if err != nil {
			return err
		}
		b, err := mskevent.Parse(path, payload)
		if err != nil {
			return err
		}
		r.opt.Files = append(r.opt.Files, b)
	}
	return nil
}

// eventFiles puts in the place of a folder its *.json, sorted.
func eventFiles(args []string) ([]string, error) {
	var paths []string
	for _, arg := range args {
		info, err := os.Stat(arg)
		switch {
		case err != nil:
			return nil, err
		case !info.IsDir():
			paths = append(paths, arg)
			continue
		}
		found, err := filepath.Glob(filepath.Join(arg, "*.json"))
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("there is no *.json in %s", arg)
		}
		slices.Sort(found)
		paths = append(paths, found...)
	}
	return paths, nil
}

// functionLog is the file that the function's output goes to, and its last lines.
type functionLog struct {
	file      *os.File
	temporary bool
	keep      string // why it is worth keeping, although the run did not fail
	last      []string
}

// How many lines are shown when a run fails, and how many runes of each.
const (
	lastLines = 10
	maxLine   = 300
)

// oldLog is the age at which a log that an earlier run has kept is removed.
const oldLog = 24 * time.Hour

// openLog opens a verb's log: the file that is named, or a temporary one, for which those that are old make room.
func openLog(verb, path string) (*functionLog, error) {
	if path != "" {
		file, err := os.Create(path) //nolint:gosec // named by the user
		if err != nil {
			return nil, fmt.Errorf("the function's log: %w", err)
		}
		return &functionLog{file: file}, nil
	}
	pattern := "idemsk-" + verb + "-*.log"
	earlier, _ := filepath.Glob(filepath.Join(os.TempDir(), pattern)) // the pattern is well-formed
	for _, name := range earlier {
		if info, err := os.Lstat(name); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > oldLog {
			_ = os.Remove(name) // another user's stays
		}
	}
	file, err := os.CreateTemp("", pattern)
	if err != nil {
		return nil, fmt.Errorf("a file for the function's log (name one with --log): %w", err)
	}
	return &functionLog{file: file, temporary: true}, nil
}

// Write takes one line at a time.
func (l *functionLog) Write(line []byte) (int, error) {
	if len(l.last) == lastLines {
		l.last = slices.Delete(l.last, 0, 1)
	}
	l.last = append(l.last, strings.TrimRight(string(line), "\n"))
	return l.file.Write(line)
}

// close shows the end of the log if the run failed. A temporary file is kept only then, or if there is a reason to keep it.
func (l *functionLog) close(failed bool, s Streams) error {
	err := l.file.Close()
	switch {
	case failed && len(l.last) > 0:
		s.sayf("The function's log is in %s; it ends with:\n", l.file.Name())
		for _, line := range l.last {
			s.sayf("  %s\n", term.Cut(term.Escape(line), maxLine))
		}
	case l.keep != "" && len(l.last) > 0:
		s.sayf("%s: the function's log is in %s.\n", l.keep, l.file.Name())
	case l.temporary:
		err = errors.Join(err, os.Remove(l.file.Name()))
	}
	return err
}
