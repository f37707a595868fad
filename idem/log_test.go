package idem_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/slogtest"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/observe"
)

// without is a text handler without the time and the level.
func without(out *bytes.Buffer) slog.Handler {
	return slog.NewTextHandler(out, &slog.HandlerOptions{ReplaceAttr: func(groups []string,
		a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
			return slog.Attr{}
		}
		return a
	}})
}

func TestLinesOfAHandlerNameItsTask(t *testing.T) {
	request := func(context.Context) []slog.Attr { return []slog.Attr{slog.String("requestId", "r-1")} }
	for name, tc := range map[string]struct {
		cfg  idem.Config
		more []func(context.Context) []slog.Attr
		log  func(l *slog.Logger) *slog.Logger
		want string
	}{
		"plain": {want: `msg=booking amount=1250 source=payments-3@17 key=payments#a attempt=1 token=T`},
		"hashed": {cfg: idem.Config{HashKeys: true},
			want: `msg=booking amount=1250 source=payments-3@17 key=` + hashed(testKey) +
				` attempt=1 token=T`},
		"of a host": {more: []func(context.Context) []slog.Attr{request},
			want: `msg=booking amount=1250 source=payments-3@17 key=payments#a attempt=1 token=T requestId=r-1`},
		"attributes": {log: func(l *slog.Logger) *slog.Logger { return l.With("a", 1) },
			want: `msg=booking a=1 amount=1250 source=payments-3@17 key=payments#a attempt=1 token=T`},
		"groups": {log: func(l *slog.Logger) *slog.Logger {
			return l.With("a", 1).WithGroup("g").With("b",
				2).WithGroup("")
		},
			want: `msg=booking a=1 source=payments-3@17 key=payments#a attempt=1 token=T g.b=2 g.amount=1250`},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			l := slog.New(observe.LogHandler(without(&out), tc.more...))
			if tc.log != nil {
				l = tc.log(l)
			}
			task := taskOf(idem.HandlerFunc(func(ctx context.Context) ([]byte, error) {
				l.InfoContext(ctx, "booking", "amount", 1250)
				return nil, nil
			}))
			done := newEngine(t, memstore.New(memstore.Config{}), tc.cfg).Do(t.Context(), task)
			wantKind(t, done, idem.Executed)
			token := slog.Int64("", done.Token).Value.String()
			equal(t, "the line", strings.Replace(strings.TrimSpace(out.String()), "token="+token, "token=T",
				1), tc.want)
		})
	}
}

// Without a claim a line has the source, and no attempt. Outside of a handler it has nothing.
func TestLinesWithoutAClaim(t *testing.T) {
	var out bytes.Buffer
	l := slog.New(observe.LogHandler(without(&out)))
	st := newSpy()
	st.onClaim = down(errNetwork)
	e := newEngine(t, st, idem.Config{FailOpen: true})
	wantKind(t, e.Do(t.Context(), taskOf(idem.HandlerFunc(func(ctx context.Context) ([]byte, error) {
		l.InfoContext(ctx, "inside")
		return nil, nil
	}))), idem.FailedOpen)
	l.InfoContext(t.Context(), "outside")
	equal(t, "lines", out.String(), "msg=inside source=payments-3@17 key=payments#a\nmsg=outside\n")
}

func TestLogHandlerIsASlogHandler(t *testing.T) {
	var out bytes.Buffer
	h := observe.LogHandler(slog.NewJSONHandler(&out, nil),
		func(context.Context) []slog.Attr { return []slog.Attr{slog.String("requestId", "r-1")} })
	err := slogtest.TestHandler(h, func() (lines []map[string]any) {
		for line := range strings.Lines(out.String()) {
			var values map[string]any
			if err := json.Unmarshal([]byte(line), &values); err != nil {
				t.Fatal(err)
			}
			equal(t, "the host's attribute", values["requestId"], any("r-1"))
			delete(values, "requestId")
			lines = append(lines, values)
		}
		return lines
	})
	if err != nil {
		t.Error(err)
	}
}
