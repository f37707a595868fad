package near_test

import (
	"testing"

	"github.com/idemsk/idemsk/internal/text/near"
)

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "key", 3}, {"key", "", 3}, {"key", "key", 0}, {"key", "kex", 1}, {"key", "ky", 1},
		{"key", "keys", 1}, {"lease", "laese", 2},
		{"kitten", "sitting", 3},
	} {
		if got := near.Distance(tc.a, tc.b); got != tc.want {
			t.Errorf("from %q to %q: %d; want %d", tc.a, tc.b, got, tc.want)
		}
	}
}
