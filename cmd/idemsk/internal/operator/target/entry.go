package target

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
)

// Find gets an entry by its key, or by the key's hash, which may be given itself.
func Find(ctx context.Context, st store.Admin, key string) (entry store.Entry, err error) {
	var forms []string
	if store.IsHashed(key) {
		forms = append(forms, key) // as list shows it
	}
	for _, hashed := range []bool{false, true} {
		stored, err := store.Key(key, hashed)
		if err != nil {
			return entry, err
		}
		if !slices.Contains(forms, stored) {
			forms = append(forms, stored)
		}
	}
	for _, stored := range forms {
		if entry, err = st.Get(ctx, stored); !errors.Is(err, store.ErrNotFound) {
			return entry, err
		}
	}
	return entry, store.ErrNotFound
}

// FindBare gets the entry of a key that is given without namespace and topic. It reads the whole store.
func FindBare(ctx context.Context, st store.Admin, key string) (found store.Entry, err error) {
	var keys []string
	for entry, err := range st.List(ctx, store.ListQuery{KeyHas: key}) {
		switch {
		case err != nil:
			return found, err
		case kafka.IsStoredKey(entry.Key, key):
			found, keys = entry, append(keys, entry.Key)
		}
	}
	switch len(keys) {
	case 0:
		return found, store.ErrNotFound
	case 1:
		return found, nil
	}
	return found, fmt.Errorf("there are %d entries for the key %q: give one of %q", len(keys), key, keys)
}

// NotFound says where a key was not found, and how keys are stored.
func (s *Store) NotFound(key string) string {
	return fmt.Sprintf("there is no entry for the key %q in %s. Keys are stored as "+
		"<namespace>#<topic>#<key> (give the consumer's --namespace and the --topic; no topic with IDEMSK_KEY_SCOPE=namespace), "+
		"those of records without a usable key as <namespace>@<topic>-<partition>@<offset>@<timestamp>; "+
		"to look for one: idemsk list --key-has PART, which can't find the hash of a key (IDEMSK_HASH_KEYS)", key, s.Place)
}

// Result returns a stored result as text if it is UTF-8, as hexadecimal otherwise, and its size in bytes.
func Result(entry *store.Entry) (text string, size int) {
	result, err := entry.StoredResult()
	if err != nil {
		return strings.TrimPrefix(err.Error(), "idem: "), 0
	}
	return term.Text(result), len(result)
}

// Status returns the status, with released, overdue or expired if that applies.
func Status(entry *store.Entry, now time.Time) string {
	switch {
	case entry.Released():
		return string(entry.Status) + " released"
	case entry.Status == store.StatusStarted && !now.Before(entry.LeaseUntil):
		return string(entry.Status) + " overdue"
	case entry.Status != store.StatusStarted && !now.Before(entry.Expiry):
		return string(entry.Status) + " expired"
	}
	return string(entry.Status)
}
