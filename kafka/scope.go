package kafka

import (
	"strconv"
	"strings"
)

// KeyScope is the scope within which an idempotency key identifies one request.
type KeyScope uint8

// The scopes.
const (
	// TopicScope makes keys unique within a topic: payment 42 and refund 42 are two requests.
	TopicScope KeyScope = iota
	// NamespaceScope makes keys unique within the namespace: a command that arrives in two topics is handled
	// once.
	NamespaceScope
)

// The stored key is "<namespace>#<topic>#<key>", or "<namespace>##<key>" with NamespaceScope. The entry of a
// record that has no key is stored under "<namespace>@<topic>-<partition>@<offset>@<timestamp>". Namespaces and
// topics do not contain '#', and topics no '@', so these forms can't collide, whatever the key contains.
const (
	keySeparator   = "#"
	placeSeparator = "@"
)

// StoredKey returns the stored form of a consumer's key. An empty topic stands for NamespaceScope. store.Key
// hashes the stored form if it is longer than store.MaxKeyBytes or if keys are to be hashed.
func StoredKey(namespace, topic, key string) string {
	return namespace + keySeparator + topic + keySeparator + key
}

// IsStoredKey reports whether stored is the stored form of key, in any namespace and topic. stored must not
// be a hash.
func IsStoredKey(stored, key string) bool {
	_, rest, _ := strings.Cut(stored, keySeparator)
	_, plain, ok := strings.Cut(rest, keySeparator)
	return ok && plain == key
}

// storedKey returns the stored form of a record's key.
func (p *Processor) storedKey(r *Record, key string) string {
	if p.cfg.KeyScope == NamespaceScope {
		return StoredKey(p.cfg.Namespace, "", key)
	}
	return StoredKey(p.cfg.Namespace, r.Topic, key)
}

// storedPlace returns the stored key of a record that has no key.
func (p *Processor) storedPlace(r *Record) string { return p.cfg.Namespace + placeSeparator + place(r) }

// place returns the record's position and timestamp: "payments-3@17@1700000000000". The timestamp in ms
// distinguishes the records of a topic that was deleted and created again, whose offsets start at 0 again.
func place(r *Record) string {
	if r.Timestamp.IsZero() {
		return r.Source()
	}
	return r.Source() + placeSeparator + strconv.FormatInt(r.Timestamp.UnixMilli(), 10)
}
