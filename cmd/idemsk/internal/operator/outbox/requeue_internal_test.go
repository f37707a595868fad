package outbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
)

// fakeOutbox is a table of parked entries. An entry with an empty ID can't be read.
func fakeOutbox(requeued *[]string, ids ...string) *Table {
	return &Table{
		Place: "the table outbox", One: "event", Many: "events",
		Parked: func(context.Context, int) iter.Seq2[Entry, error] {
			return func(yield func(Entry, error) bool) {
				for n, id := range ids {
					e, err := Entry{ID: id, CreatedAt: time.Unix(int64(-n), 0)}, error(nil)
					if id == "" {
						err = fmt.Errorf("%w: odd", ErrUnreadable)
					}
					if !yield(e, err) {
						return
					}
				}
			}
		},
		Requeue: func(_ context.Context, entries []Entry) (int, []error, error) {
			for _, e := range entries {
				*requeued = append(*requeued, e.ID)
			}
			return len(entries), nil, nil
		},
	}
}

func TestRequeueAllAsksFirst(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string][]string{"y\n": {"c", "b", "a"}, "n\n": nil, "": nil} {
		var requeued []string
		var said bytes.Buffer
		o := invocation{requeue: true, all: true}
		err := o.requeueIn(t.Context(), command.Streams{In: strings.NewReader(answer), Err: &said},
			fakeOutbox(&requeued, "a", "b", "c"))
		if err != nil || !slices.Equal(requeued, want) {
			t.Errorf("%q: %v requeued, %v; want %v, the oldest first", answer, requeued, err, want)
		}
		if !strings.Contains(said.String(), "Send the 3 events again that are parked in the table outbox?") ||
			(want == nil) != strings.Contains(said.String(), "nothing was done") {
			t.Errorf("%q: %s", answer, said.String())
		}
	}
	var requeued []string
	var said bytes.Buffer
	o := invocation{requeue: true, all: true}
	if err := o.requeueIn(t.Context(), command.Streams{Err: &said}, fakeOutbox(&requeued)); err != nil ||
		strings.Contains(said.String(), "?") {
		t.Errorf("nothing to ask about: %v, %s", err, said.String())
	}
}

func TestIDsAreFoundInAnyNotation(t *testing.T) {
	t.Parallel()
	var requeued []string
	o := invocation{requeue: true, ids: []string{"A", "b"}}
	err := o.requeueIn(t.Context(), command.Streams{Err: io.Discard}, fakeOutbox(&requeued, "a", "B", "c"))
	if err != nil || !slices.Equal(requeued, []string{"B", "a"}) {
		t.Errorf("%v requeued, %v", requeued, err)
	}
}

// An ID can recur in another partition of a table: all its events are requeued, and not more.
func TestAllEventsOfAnIDAreRequeued(t *testing.T) {
	t.Parallel()
	var requeued []string
	var said bytes.Buffer
	o := invocation{requeue: true, ids: []string{"a", "x"}}
	err := o.requeueIn(t.Context(), command.Streams{Err: &said}, fakeOutbox(&requeued, "a", "b", "a"))
	if !errors.Is(err, command.ErrReported) || !slices.Equal(requeued, []string{"a", "a"}) ||
		!strings.Contains(said.String(), "x is not parked") {
		t.Errorf("%v requeued, %v: %s", requeued, err, said.String())
	}
}

func TestUnreadableEntriesAreNamedAndKept(t *testing.T) {
	t.Parallel()
	var requeued []string
	var said bytes.Buffer
	o := invocation{requeue: true, all: true, yes: true}
	err := o.requeueIn(t.Context(), command.Streams{Err: &said}, fakeOutbox(&requeued, "a", "", "c"))
	if !errors.Is(err, command.ErrReported) || !slices.Equal(requeued, []string{"c", "a"}) ||
		!strings.Contains(said.String(), "odd") {
		t.Errorf("%v requeued, %v: %s", requeued, err, said.String())
	}
}

func TestEntriesRequeuedBeforeAFailureAreCounted(t *testing.T) {
	t.Parallel()
	var requeued []string
	var said bytes.Buffer
	box := fakeOutbox(&requeued, "a")
	away := errors.New("the server is away")
	box.Requeue = func(context.Context, []Entry) (int, []error, error) {
		return 7, []error{errors.New("b has gone")}, away
	}
	o := invocation{requeue: true, ids: []string{"a", "x"}}
	err := o.requeueIn(t.Context(), command.Streams{Err: &said}, box)
	if !errors.Is(err, away) || !strings.Contains(said.String(), "7 events requeued") ||
		!strings.Contains(said.String(), "b has gone") ||
		!strings.Contains(said.String(), "x is not parked") {
		t.Errorf("%v: %s", err, said.String())
	}
}
