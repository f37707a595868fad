package redrive_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/cli"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/clitest"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/redrive"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/kafka"
)

// interrupted sends letters to a list until Ctrl-C, which is pressed while the letter of an offset is sent.
type interrupted struct {
	listDestination
	at     int64
	cancel func()
}

// Send implements redrive.Destination.
func (d *interrupted) Send(ctx context.Context, l *kafka.DeadLetter) (string, error) {
	if l.Offset == d.at {
		d.cancel()
	}
	return d.listDestination.Send(ctx, l)
}

// After Ctrl-C the next run sends the letters that the first one has not sent, and no others.
func TestInterruptedRunIsResumed(t *testing.T) {
	t.Parallel()
	const letters = 25
	client, url := awstest.NewQueue(t, "letters")
	for _, l := range lettersFrom(letters) {
		sendAll(t, client, url, encode(t, &l))
	}
	c := newLetterCluster(t)
	sendLetters(t, c, lettersFrom(letters)...)
	for name, open := range map[string]func() redrive.Source{
		"a queue": func() redrive.Source { return redrive.Queue(client, url, time.Minute) },
		"a topic": func() redrive.Source { return openTopic(t, dial(t, c)) },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		dst := &interrupted{at: 12, cancel: cancel}
		_, err := redrive.Run(ctx, redrive.Options{Source: open(), Destination: dst}, func(redrive.Result) {})
		if !errors.Is(err, context.Canceled) || len(dst.sent) == 0 || len(dst.sent) == letters {
			t.Errorf("%s: %v after %d letters", name, err, len(dst.sent))
		}
		rest := &listDestination{}
		results, _ := runAll(t, redrive.Options{Source: open(), Destination: rest})
		all := slices.Sorted(slices.Values(slices.Concat(dst.sent, rest.sent)))
		if len(results) != letters-len(dst.sent) || len(all) != letters || len(slices.Compact(all)) != letters {
			t.Errorf("%s: %d and then %v were sent", name, len(dst.sent), rest.sent)
		}
	}
}

// A file is not changed: an interrupted run says which lines are done, and the next one skips them.
func TestInterruptedFileIsResumed(t *testing.T) {
	t.Parallel()
	var lines strings.Builder
	for n := range 6 {
		lines.WriteString(strings.ReplaceAll(clitest.LetterJSON(n), "\n", "") + "\n")
	}
	path := clitest.File(t, "letters.jsonl", strings.Replace(lines.String(), "\n", "\n\n", 1)+"hello\n")
	brokers := clitest.NewCluster(t, kfake.SeedTopics(3, "payments"))
	args := []string{"redrive", "--file", path, "--brokers", brokers, "--yes", "--json"}

	ctx, cancel := context.WithCancel(t.Context())
	out := &clitest.Endless{Text: `"redriven"`, Left: 3, End: cancel}
	var errs strings.Builder
	code := cli.Main(ctx, append(args, "--rate", "1000/s"),
		cli.Streams{In: strings.NewReader(""), Out: out, Err: &errs}, "v1")
	want := fmt.Sprintf("the lines 1-4 of %s are done. To go on with the others: --skip-lines 1-4\n", path)
	if code == 0 || !strings.Contains(errs.String(), want) {
		t.Fatalf("exit %d: %s; want %q", code, errs.String(), want)
	}
	r := clitest.Run(t, append(args, "--skip-lines", "1-4", "--key", "payments#p-4\x1b")...)
	if want := "--skip-lines 1-4,6\n"; strings.Count(r.Out, `"redriven"`) != 1 || !strings.HasSuffix(r.Err, want) {
		t.Errorf("one key: %+v; want %q", r, want)
	}
	// The last line is no dead letter, and stays.
	r = clitest.Run(t, append(args, "--skip-lines", "1-4,6")...)
	if want := "--skip-lines 1-7"; strings.Count(r.Out, `"redriven"`) != 2 || !strings.Contains(r.Err, want) {
		t.Errorf("the rest: %+v; want %q", r, want)
	}
	if r = clitest.Run(t, append(args, "--skip-lines", "1-8")...); r.Out != "" ||
		strings.Contains(r.Err, "--skip-lines") {
		t.Errorf("nothing is left: %+v", r)
	}
	if got := clitest.ReadTopic(t, brokers, "payments", 6); len(got) != 6 {
		t.Errorf("%d records are redriven: %v", len(got), got)
	}
}

// What is wrong in the flags is said before anything is read.
func TestRedriveFlags(t *testing.T) {
	t.Parallel()
	for args, says := range map[string]string{
		"--file x --skip-lines 3-1 --dry-run": `--skip-lines: "3-1" is no line`,
		"--queue-url x --skip-lines 1 --yes":  "--skip-lines needs --file",
		"--bucket x --dry-run":                `--bucket is "x": want s3://BUCKET`,
		"--bucket s3://gave-up --file x":      "want one of --queue-url, --dead-letter-topic, --bucket and --file",
		"--file x --rate 5 --dry-run":         "want N/s, such as 50/s",
	} {
		if r := clitest.Run(t, append([]string{"redrive"}, strings.Fields(args)...)...); r.Code != 2 ||
			!strings.Contains(r.Err, says) {
			t.Errorf("%s: %+v; want %q", args, r, says)
		}
	}
}
