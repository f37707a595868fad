package oracle

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/idemsk/idemsk/internal/mskevent"
)

// errRejected means that a record has no usable key.
var errRejected = errors.New("no usable key")

// errNoKey means that a record has no key.
var errNoKey = fmt.Errorf("%w: it has none", errRejected)

// timestampOf returns what a record's timestamp adds to its place. The rest of the record may be malformed.
func timestampOf(raw json.RawMessage) string {
	var r struct {
		Timestamp json.RawMessage `json:"timestamp"`
	}
	if json.Unmarshal(raw, &r) != nil {
		return ""
	}
	ms, err := strconv.ParseInt(string(r.Timestamp), 10, 64)
	if err != nil || ms == -1 {
		return ""
	}
	return "@" + strconv.FormatInt(ms, 10)
}

// decoded is a record's JSON.
type decoded struct {
	Timestamp     *int64             `json:"timestamp"`
	TimestampType *string            `json:"timestampType"`
	Key           []byte             `json:"key"`
	Value         []byte             `json:"value"`
	Headers       []map[string][]int `json:"headers"` // signed bytes
}

func decode(raw json.RawMessage) (*decoded, error) {
	var r decoded
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, fmt.Errorf("%w: %w", errRejected, err)
	}
	for _, header := range r.Headers {
		for _, value := range header {
			for _, b := range value {
				if b < math.MinInt8 || b > math.MaxUint8 {
					return nil, fmt.Errorf("%w: a header byte of %d", errRejected, b)
				}
			}
		}
	}
	return &r, nil
}

// fingerprint identifies a value. Null and empty values differ.
func (r *decoded) fingerprint() [sha256.Size]byte {
	if r.Value == nil {
		return sha256.Sum256([]byte("null"))
	}
	return sha256.Sum256(append([]byte("value:"), r.Value...))
}

// checkKey returns an error for a setting of IDEMSK_KEY that the oracle does not support.
func checkKey(setting string) error {
	_, isHeader := strings.CutPrefix(setting, "header:")
	if isHeader || setting == "key" || setting == "hash" || setting == "offset" {
		return nil
	}
	return fmt.Errorf("IDEMSK_KEY is %q: the expected ledger can be computed only for header:NAME, key, hash and offset", setting)
}

// key returns a record's idempotency key.
func (r *Rules) key(record *decoded, place string) (string, error) {
	var key []byte
	switch name, isHeader := strings.CutPrefix(r.Key, "header:"); {
	case isHeader:
		var err error
		if key, err = record.header(name); err != nil {
			return "", err
		}
	case r.Key == "key":
		key = record.Key
	case r.Key == "hash" && record.Value != nil:
		sum := sha256.Sum256(record.Value)
		key = []byte(hex.EncodeToString(sum[:]))
	case r.Key == "hash":
	case r.Key == "offset":
		key = []byte(place)
	default:
		return "", checkKey(r.Key)
	}
	if len(key) == 0 {
		return "", errNoKey
	}
	return string(key), nil
}

// written returns the names that mean a header: its own if the record has it, else those that differ from it
// only in case.
func (r *decoded) written(name string) []string {
	var similar []string
	for _, header := range r.Headers {
		for other := range header {
			switch {
			case other == name:
				return []string{name}
			case strings.EqualFold(other, name) && !slices.Contains(similar, other):
				similar = append(similar, other)
			}
		}
	}
	return similar
}

// header returns the value of a header. Two different values, and two names, are errRejected.
func (r *decoded) header(name string) ([]byte, error) {
	written := r.written(name)
	switch len(written) {
	case 0:
		return nil, nil
	case 1:
	default:
		return nil, errRejected
	}
	var value []byte
	found := false
	for _, header := range r.Headers {
		ints, ok := header[written[0]]
		if !ok {
			continue
		}
		text := make([]byte, len(ints))
		for i, b := range ints {
			text[i] = byte(b)
		}
		if found && !bytes.Equal(value, text) {
			return nil, errRejected
		}
		value, found = text, true
	}
	return value, nil
}

// ascending returns the partitions in their order, and the records of each by offset.
func ascending(records []mskevent.Record) []mskevent.Record {
	order := make(map[string]int)
	for i := range records {
		if _, known := order[records[i].PartitionID]; !known {
			order[records[i].PartitionID] = i
		}
	}
	return slices.SortedStableFunc(slices.Values(records), func(a, b mskevent.Record) int {
		return cmp.Or(cmp.Compare(order[a.PartitionID], order[b.PartitionID]),
			cmp.Compare(a.Offset, b.Offset))
	})
}
