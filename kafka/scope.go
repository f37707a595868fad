package kafka

import (
	"strconv"
	"strings"
)

// KeyScope says within what an idempotency key stands for one request.
type KeyScope uint8

// The scopes.
const (
	// TopicScope is a consumer's view of one topic: payment 42 and refund 42 are two requests.
	TopicScope KeyScope = iota
	// NamespaceScope is all that a consumer reads: the same command may come by two topics, and is handled once.
	NamespaceScope
)

// The stored key is "<namespace>#<topic>#<key>", or "<namespace>##<key>" where the scope is the namespace. A record that has no
// key of its own is remembered under "<namespace>@<topic>-<partition>@<offset>@<timestamp>". Neither a namespace nor a topic
// contains '#', so that no two of these forms can meet, whatever a producer writes into a key.
const (
	keySeparator   = "#"
	placeSeparator = "@"
)

// StoredKey returns the form in which a consumer's key is stored; an empty topic stands for NamespaceScope. What is longer
// than store.MaxKeyBytes, or to be hashed, is stored as store.Key says.
func StoredKey(namespace, topic, key string) string {
	return namespace + keySeparator + topic + keySeparator + key
}

// IsStoredKey reports whether a stored key, which is not hashed, is that of key in any namespace and topic.
func IsStoredKey(stored, key string) bool {
	_, rest, _ := strings.Cut(stored, keySeparator)
	_, plain, ok := strings.Cut(rest, keySeparator)
	return ok && plain == key
}

// storedKey is that of a record's key.
func (p *Processor) storedKey(r *Record, key string) string {
	if p.cfg.KeyScope == NamespaceScope {
		return StoredKey(p.cfg.Namespace, "", key)
	}
	return StoredKey(p.cfg.Namespace, r.Topic, key)
}

// storedPlace is the stored key of a record that has no key of its own.
func (p *Processor) storedPlace(r *Record) string { return p.cfg.Namespace + placeSeparator + place(r) }

// place identifies a record by where it stands and when it was written: "payments-3@17@1700000000000". A topic that is deleted
// and created anew counts its offsets from 0 again, but its records have other timestamps, in ms.
func place(r *Record) string {
	if r.Timestamp.IsZero() {
		return r.Source()
	}
	return r.Source() + placeSeparator + strconv.FormatInt(r.Timestamp.UnixMilli(), 10)
}
