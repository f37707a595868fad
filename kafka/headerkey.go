package kafka

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/idemsk/idemsk/internal/text/near"
)

// DefaultKeyHeader is the default name of the header that contains the idempotency key.
const DefaultKeyHeader = "idempotency-key"

// HeaderKey returns a KeyFunc that reads the key from a header. Without a header of exactly that name it
// reads the one whose name differs only in upper and lower case; two such names are an error. A null or empty
// value is ErrNoKey. Two different values are an error. In both cases of an error the key is ambiguous.
func HeaderKey(name string) KeyFunc {
	return func(_ context.Context, r *Record) (string, error) {
		written, err := asWritten(r, name)
		if err != nil {
			return "", err
		}
		var key []byte
		found := false
		for value := range r.Header(written) {
			if found && !bytes.Equal(key, value) {
				return "", fmt.Errorf("the header %q is there more than once, with different values: the idempotency key is ambiguous", written)
			}
			key, found = value, true
		}
		switch {
		case len(key) > 0:
			return string(key), nil
		case found:
			return "", fmt.Errorf("%w in the header %q, which is empty", ErrNoKey, written)
		}
		if other := nearHeader(r, name); other != "" {
			return "", fmt.Errorf("%w in the header %q: is it in %q? IDEMSK_KEY=header:NAME sets the name",
				ErrNoKey, name, other)
		}
		return "", fmt.Errorf("%w in the header %q", ErrNoKey, name)
	}
}

// asWritten returns the name of a header as the producer wrote it: the name itself if a header has it or none
// has a similar name, else the one that differs only in upper and lower case.
func asWritten(r *Record, name string) (string, error) {
	written, other := name, ""
	for i := range r.Headers {
		switch header := r.Headers[i].Key; {
		case header == name:
			return name, nil
		case header == written || !strings.EqualFold(header, name):
		case written == name:
			written = header
		default:
			other = header
		}
	}
	if other != "" {
		return "", fmt.Errorf("the headers %q and %q differ only in upper and lower case: the idempotency key is ambiguous", written, other)
	}
	return written, nil
}

// longestNear bounds the time to compare the name of a header. Longer names are not near.
const longestNear = 100

// nearHeader returns the header whose name is most similar to the name, "" if none is. Case and punctuation
// do not count. Similar names differ in at most a third of the letters, or one contains the other.
func nearHeader(r *Record, name string) string {
	const share, shortest = 3, 3
	want := lettersOf(name)
	best, fewest := "", longestNear+1
	for i := range r.Headers {
		header := r.Headers[i].Key
		if len(header) > longestNear || len(name) > longestNear {
			continue
		}
		got := lettersOf(header)
		contained := min(len(got), len(want)) >= shortest &&
			(strings.Contains(got, want) || strings.Contains(want, got))
		if n := near.Distance(got, want); n < fewest && (contained || n <= len(want)/share) {
			best, fewest = header, n
		}
	}
	return best
}

// lettersOf returns a name without punctuation, in lower case.
func lettersOf(name string) string {
	return strings.Map(func(c rune) rune {
		if strings.ContainsRune("-_. ", c) {
			return -1
		}
		return c
	}, strings.ToLower(name))
}
