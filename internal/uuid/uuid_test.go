package uuid

import (
	"crypto/sha256"
	"regexp"
	"testing"
)

// The test vector of RFC 9562, appendix B.2: a name in the namespace of DNS.
func TestUUIDOfAHash(t *testing.T) {
	dns := []byte{0x6b, 0xa7, 0xb8, 0x10, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30,
		0xc8}
	if got, want := Of(sha256.Sum256(append(dns, "www.example.com"...))),
		"5c146b14-3c52-8afd-938a-375d0df1fbf6"; got != want {
		t.Errorf("%s; want %s", got, want)
	}
}

func TestNewGrowsWithTime(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	const before = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f" // of 2022: RFC 9562, appendix A.6
	seen := make(map[string]bool)
	for range 1000 {
		id := New()
		if !form.MatchString(id) || id <= before || seen[id] {
			t.Errorf("%s is not a new UUID of version 7", id)
		}
		seen[id] = true
	}
}
