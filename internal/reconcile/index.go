package reconcile

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"strings"

	"github.com/idemsk/idemsk/idem/store"
)

// digest identifies a key, whether it is stored plain or hashed: the first half of its SHA-256.
type digest [sha256.Size / 2]byte

// digestOf returns the digest of a key or a stored key.
func digestOf(key string) digest {
	if _, text, _ := strings.Cut(key, ":"); store.IsHashed(key) {
		if sum, err := hex.DecodeString(text); err == nil && len(sum) == sha256.Size {
			return digest(sum[:len(digest{})])
		}
	}
	sum := sha256.Sum256([]byte(key))
	return digest(sum[:len(digest{})])
}

// index has the rows of an export by key.
type index struct {
	rows  []Row
	taken []bool
	of    map[digest]int32
}

func (r *Report) index(export iter.Seq2[Row, error], prefix string) (*index, error) {
	if export == nil {
		return nil, nil //nolint:nilnil // nothing to compare with
	}
	x := &index{of: make(map[digest]int32)}
	for row, err := range export {
		if err != nil {
			return nil, err
		}
		r.Rows++
		d := digestOf(prefix + row.Key)
		if _, twice := x.of[d]; twice {
			add(&r.Twice, &r.Found.Twice, r.limit, row)
			continue
		}
		x.of[d] = int32(len(x.rows)) // an export of 2³¹ rows does not fit in memory
		x.rows, x.taken = append(x.rows, row), append(x.taken, false)
	}
	return x, nil
}

func (x *index) take(stored string) (Row, bool) {
	n, ok := x.of[digestOf(stored)]
	if !ok {
		return Row{}, false
	}
	x.taken[n] = true
	return x.rows[n], true
}

// left yields the remaining rows in the order of the export.
func (x *index) left() iter.Seq[Row] {
	return func(yield func(Row) bool) {
		if x == nil {
			return
		}
		for n, row := range x.rows {
			if !x.taken[n] && !yield(row) {
				return
			}
		}
	}
}
