package redrive

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
)

// A progress agrees with a plain set, and is the same after it was written and read.
func TestProgressAgreesWithASet(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		const offsets = 60
		first := random.Int64N(offsets)
		p, set := progress{first: first}, make(map[int64]bool)
		for o := range first {
			set[o] = true
		}
		for range random.IntN(40) {
			from := random.Int64N(offsets)
			to := from + random.Int64N(1+random.Int64N(9))
			p.mark(from, to)
			for o := from; o < to; o++ {
				set[o] = true
			}
			read, err := readProgress(p.first, p.metadata())
			if err != nil || read.first != p.first || len(read.done)+len(p.done) > 0 &&
				!reflect.DeepEqual(read.done, p.done) {
				t.Fatalf("seed %d: %+v was written, and %+v read: %v", seed, p, read, err)
			}
			if set[p.first] {
				t.Fatalf("seed %d: %+v; the first is done", seed, p)
			}
			for o := range int64(offsets + 10) {
				if p.has(o) != set[o] {
					t.Fatalf("seed %d: %d is done: %v, want %v; %+v", seed, o, p.has(o), set[o], p)
				}
			}
		}
	}
}

// The metadata of 1,500 letters that alternate with others fit.
func TestMetadataOfManySpansFit(t *testing.T) {
	t.Parallel()
	p := progress{first: 1 << 40}
	for n := range int64(1500) {
		p.mark(p.first+2*n+1, p.first+2*n+2)
	}
	if n := len(p.metadata()); n > maxMetadata+100 || n < maxMetadata/2 {
		t.Errorf("%d bytes; want about %d", n, maxMetadata)
	}
}

// metadataOf returns the metadata with these numbers.
func metadataOf(numbers ...uint64) string {
	var b []byte
	for _, n := range numbers {
		b = binary.AppendUvarint(b, n)
	}
	return metadataForm + base64.RawURLEncoding.EncodeToString(b)
}

// A tool that resets the offsets of a group writes other metadata, or none.
func TestMetadataOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"x", "idemsk1", "idemsk1:*", "idemsk1:AQ", "idemsk1:AQA", "idemsk1:AAE", "idemsk1:____________AQ",
		metadataOf(1<<62, 1), metadataOf(1<<62-1, 1, 1<<62-1, 1),
	} {
		if p, err := readProgress(7, text); !errors.Is(err, errMetadata) {
			t.Errorf("%s: %+v, %v", text, p, err)
		}
	}
	if p, err := readProgress(7, ""); err != nil || p.first != 7 || p.done != nil {
		t.Errorf("%+v, %v", p, err)
	}
}

func FuzzReadProgress(f *testing.F) {
	f.Add(int64(7), "idemsk1:AQE")
	f.Fuzz(func(t *testing.T, first int64, text string) {
		if first < 0 {
			return
		}
		p, err := readProgress(first, text)
		if err != nil {
			return
		}
		end := p.first
		for _, s := range p.done {
			if s.from <= end || s.to <= s.from {
				t.Fatalf("%+v does not ascend", p)
			}
			end = s.to
		}
	})
}
