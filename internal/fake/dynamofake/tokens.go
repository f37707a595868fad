package dynamofake

import (
	"crypto/sha256"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tokenLifetime is how long DynamoDB keeps a ClientRequestToken.
const tokenLifetime = 10 * time.Minute

// tokens keeps the transactions that were done with a ClientRequestToken. It is guarded by Server.mu.
type tokens struct {
	entries map[string]tokenEntry
	queue   []string // oldest first
}

type tokenEntry struct {
	fingerprint [sha256.Size]byte
	used        time.Time
}

// done reports whether the transaction was done before. It returns an error if the token belongs to another
// transaction.
func (t *tokens) done(token string, fingerprint [sha256.Size]byte, now time.Time) (bool, error) {
	for len(t.queue) > 0 && now.Sub(t.entries[t.queue[0]].used) > tokenLifetime {
		delete(t.entries, t.queue[0])
		t.queue = t.queue[1:]
	}
	entry, ok := t.entries[token]
	if ok && entry.fingerprint != fingerprint {
		return false, clientError("IdempotentParameterMismatchException",
			"ClientRequestToken %s was used for another transaction within the last %v", token, tokenLifetime)
	}
	return ok, nil
}

func (t *tokens) remember(token string, fingerprint [sha256.Size]byte, now time.Time) {
	if token == "" {
		return
	}
	if t.entries == nil {
		t.entries = make(map[string]tokenEntry)
	}
	token = strings.Clone(token) // which is part of a request's whole body
	t.entries[token] = tokenEntry{fingerprint, now}
	t.queue = append(t.queue, token)
}

// fingerprint identifies the content of a transaction, independent of the order of its JSON members.
func (rq *transactRequest) fingerprint() [sha256.Size]byte {
	var b []byte
	for i := range rq.actions {
		b = rq.actions[i].appendCanonical(b)
	}
	return sha256.Sum256(b)
}

func (rq *writeRequest) appendCanonical(b []byte) []byte {
	b = append(b, byte(rq.verb), strconv.FormatBool(rq.returnOld)[0])
	for _, s := range []*string{rq.table, rq.condition, rq.update} {
		if s != nil {
			b = appendString(b, *s)
		}
		b = append(b, ',')
	}
	b = appendItem(b, rq.item)
	names := slices.SortedFunc(slices.Values(rq.substitutions.names), comparePlaceholders)
	for i := range names {
		b = appendString(appendString(b, names[i].placeholder), names[i].meaning)
	}
	values := slices.SortedFunc(slices.Values(rq.substitutions.values), comparePlaceholders)
	for i := range values {
		b = appendValue(appendString(b, values[i].placeholder), &values[i].meaning)
	}
	return b
}

func comparePlaceholders[T any](a, b substitution[T]) int {
	return strings.Compare(a.placeholder, b.placeholder)
}
