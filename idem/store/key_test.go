package store_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/idemsk/idemsk/idem/store"
)

func hashed(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func TestKey(t *testing.T) {
	long := strings.Repeat("k", store.MaxKeyBytes)
	for _, tc := range []struct {
		name, key string
		hash      bool
		want      string
	}{
		{"plain", "payments#17", false, "payments#17"},
		{"several scripts", "платёж-支払い-💶", false, "платёж-支払い-💶"},
		{"the longest", long, false, long},
		{"one byte longer", long + "k", false, hashed(long + "k")},
		{"not UTF-8", "a\xFFb", false, hashed("a\xFFb")},
		{"one that looks hashed", hashed("a"), false, hashed(hashed("a"))},
		{"hashing asked for", "payments#17", true, hashed("payments#17")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := store.Key(tc.key, tc.hash)
			if err != nil || got != tc.want {
				t.Errorf("%q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

func TestKeyRefusesAnEmptyKey(t *testing.T) {
	for _, hash := range []bool{false, true} {
		if _, err := store.Key("", hash); !errors.Is(err, store.ErrInvalidKey) {
			t.Errorf("%v; want ErrInvalidKey", err)
		}
	}
}

// Two keys must never have the same stored key, and every stored key must fit every store.
func TestKeysAreDistinctAndStorable(t *testing.T) {
	anyKey := rapid.OneOf(
		rapid.String(),
		rapid.StringN(0, -1, 3*store.MaxKeyBytes),
		rapid.Map(rapid.String(), hashed),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
	).Filter(func(s string) bool { return s != "" })
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyKey.Draw(t, "a"), anyKey.Draw(t, "b")
		if rapid.Bool().Draw(t, "b is the stored form of a") {
			b, _ = store.Key(a, rapid.Bool().Draw(t, "hashed"))
		}
		sa, errA := store.Key(a, false)
		sb, errB := store.Key(b, false)
		if errA != nil || errB != nil {
			t.Fatalf("%v, %v", errA, errB)
		}
		if len(sa) > store.MaxKeyBytes || !utf8.ValidString(sa) {
			t.Fatalf("stored as %q", sa)
		}
		if (a == b) != (sa == sb) {
			t.Fatalf("%q and %q are stored as %q and %q", a, b, sa, sb)
		}
	})
}
