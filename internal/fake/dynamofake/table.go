package dynamofake

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	maxKeyBytes   = 2048
	maxTTLAgeSecs = 5 * 365 * 24 * 60 * 60 // DynamoDB takes a time to live that is older for a mistake
)

// Table describes a table for [Server.CreateTable].
type Table struct {
	Name         string // 3 to 255 characters of a-z, A-Z, 0-9, _, - and .
	HashKey      string // name of the partition key, which is of type S; 1 to 255 bytes
	TTLAttribute string // attribute with the time to live in epoch seconds; empty for none
}

// table is a table and its items. The fields above the blank line never change; those below are guarded by
// Server.mu.
type table struct {
	name    string
	hashKey string
	billing string // PROVISIONED or PAY_PER_REQUEST
	created time.Time

	ttl   string // empty while time to live is disabled
	items map[string]item
	order []place // the keys in the order of a scan; nil when a key came or went since it was made
}

func validTableName(name string) bool {
	const shortest, longest = 3, 255
	for i := range len(name) {
		if c := name[i]; !isLetter(c) && !isDigit(c) && strings.IndexByte("_.-", c) < 0 {
			return false
		}
	}
	return len(name) >= shortest && len(name) <= longest
}

func invalidTableName() error {
	return invalid("Invalid table/index name.  Table/index names must be between 3 and 255 characters long, " +
		"and may contain only the characters a-z, A-Z, 0-9, '_', '-', and '.'")
}

// CreateTable creates an empty table without a request. It returns an error if the description is invalid or
// the name exists.
func (s *Server) CreateTable(t Table) error {
	_, err := s.createTable(t, "PAY_PER_REQUEST")
	if err != nil {
		return fmt.Errorf("dynamofake: create table %q: %w", t.Name, err)
	}
	return nil
}

func (s *Server) createTable(description Table, billing string) (*table, error) {
	const maxKeyName = 255
	switch {
	case !validTableName(description.Name):
		return nil, invalidTableName()
	case description.HashKey == "" || len(description.HashKey) > maxKeyName:
		return nil, invalid("Names of key attributes and attributes projected into an index " +
			"must be between 1 and 255 characters, inclusive")
	case description.TTLAttribute == description.HashKey:
		return nil, invalid("the key %q cannot be the time-to-live attribute", description.HashKey)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tables[description.Name] != nil {
		return nil, clientError("ResourceInUseException", "Table already exists: %s", description.Name)
	}
	t := &table{
		name: description.Name, hashKey: description.HashKey, ttl: description.TTLAttribute,
		billing: billing, created: s.config.Now(), items: make(map[string]item),
	}
	s.tables[t.name] = t
	return t, nil
}

// table returns the table that a request names.
func (s *Server) table(name *string) (*table, error) {
	if name == nil {
		return nil, missing("tableName")
	}
	s.mu.Lock()
	t := s.tables[*name]
	s.mu.Unlock()
	switch {
	case t != nil:
		return t, nil
	case !validTableName(*name):
		return nil, invalidTableName()
	}
	return nil, clientError("ResourceNotFoundException", "Requested resource not found: Table: %s not found%s",
		*name, s.config.NoTable)
}

func missing(parameter string) error {
	return invalid("1 validation error detected: Value null at '%s' failed to satisfy constraint: "+
		"Member must not be null", parameter)
}

// key returns the key in a request's Key member.
func (t *table) key(key item) (string, error) {
	if len(key) != 1 || key[0].name != t.hashKey || key[0].value.kind != kindS {
		return "", invalid("The provided key element does not match the schema")
	}
	return t.validKey(key[0].value.text)
}

// keyOf returns the key of an item to put.
func (t *table) keyOf(it item) (string, error) {
	switch v := it.get(t.hashKey); {
	case v == nil:
		return "", invalid("One or more parameter values were invalid: Missing the key %s in the item",
			t.hashKey)
	case v.kind != kindS:
		return "", invalid("One or more parameter values were invalid: "+
			"Type mismatch for key %s expected: S actual: %s", t.hashKey, v.kind)
	default:
		return t.validKey(v.text)
	}
}

func (t *table) validKey(key string) (string, error) {
	switch {
	case key == "":
		return "", invalid("One or more parameter values are not valid. "+
			"The AttributeValue for a key attribute cannot contain an empty string value. Key: %s", t.hashKey)
	case len(key) > maxKeyBytes:
		return "", invalid("One or more parameter values were invalid: " +
			"Size of hashkey has exceeded the maximum size limit of2048 bytes")
	}
	return key, nil
}

// keyItem returns an item with only the key.
func (t *table) keyItem(key string) item {
	return item{{t.hashKey, value{kind: kindS, text: key}}}
}

// store stores the item under its key, or deletes the stored item if it is nil. The caller holds Server.mu.
func (t *table) store(key string, it item) {
	_, existed := t.items[key]
	if existed != (it != nil) {
		t.order = nil
	}
	if it == nil {
		delete(t.items, key)
	} else {
		t.items[key] = it
	}
}

// place is where a key is in a scan: by its hash, so that the order is stable and unrelated to the keys, as
// in DynamoDB.
type place struct {
	hash uint64
	key  string
}

func placeOf(key string) place {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key)) // never fails
	return place{h.Sum64(), key}
}

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.hash, q.hash), strings.Compare(p.key, q.key))
}

// scanOrder returns all keys in the order of a scan. The caller holds Server.mu and does not change the
// slice.
func (t *table) scanOrder() []place {
	if t.order == nil {
		t.order = make([]place, 0, len(t.items))
		for key := range t.items {
			t.order = append(t.order, placeOf(key))
		}
		slices.SortFunc(t.order, place.compare)
	}
	return t.order
}

// ExpireNow deletes all items that have expired by now, in tables with a time-to-live attribute, and returns
// their number. DynamoDB does this later. Items whose attribute is absent, not a number, or more than five
// years in the past stay.
func (s *Server) ExpireNow(now time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	deleted := 0
	for _, t := range s.tables {
		for key, it := range t.items {
			if t.ttl != "" && isExpired(it.get(t.ttl), now.Unix()) {
				t.store(key, nil)
				deleted++
			}
		}
	}
	return deleted
}

func isExpired(v *value, now int64) bool {
	if v == nil || v.kind != kindN {
		return false
	}
	whole, _, _ := strings.Cut(v.text, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	return err == nil && seconds < now && seconds >= now-maxTTLAgeSecs
}
