package redrive

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
)

// progress is the set of offsets of a partition whose letters are done. A consumer group keeps it: the
// committed offset is the first letter that is not done, and the metadata of the commit are the letters
// beyond it that are.
type progress struct {
	first int64 // all before it are done
	done  []span
}

// span are the offsets from from up to, and without, to. The spans of a progress ascend, begin beyond first,
// and do not touch.
type span struct{ from, to int64 }

// maxMetadata is the largest metadata in bytes, below the brokers' default of offset.metadata.max.bytes. It
// has room for 1,500 spans of letters that alternate with others.
// https://kafka.apache.org/documentation/#brokerconfigs_offset.metadata.max.bytes
const maxMetadata = 4000

// metadataForm begins the metadata of a commit.
const metadataForm = "idemsk1:"

// has reports whether the letter at an offset is done.
func (p *progress) has(offset int64) bool {
	i := sort.Search(len(p.done), func(i int) bool { return p.done[i].to > offset })
	return offset < p.first || i < len(p.done) && p.done[i].from <= offset
}

// mark adds the offsets from from up to, and without, to.
func (p *progress) mark(from, to int64) {
	if from >= to {
		return
	}
	i := sort.Search(len(p.done), func(i int) bool { return p.done[i].to >= from })
	j := i
	for ; j < len(p.done) && p.done[j].from <= to; j++ {
		from, to = min(from, p.done[j].from), max(to, p.done[j].to)
	}
	p.done = slices.Replace(p.done, i, j, span{from, to})
	if p.done[0].from <= p.first {
		p.first = max(p.first, p.done[0].to)
		p.done = p.done[1:]
	}
	p.done = slices.DeleteFunc(p.done, func(s span) bool { return s.to <= p.first })
}

// clone returns a copy that shares nothing.
func (p *progress) clone() progress { return progress{p.first, slices.Clone(p.done)} }

// metadata returns the spans as text: for each, the distance from the end of the one before, or from first,
// and the length.
func (p *progress) metadata() string {
	if len(p.done) == 0 {
		return ""
	}
	var b []byte
	end := p.first
	for _, s := range p.done {
		b = binary.AppendUvarint(b, uint64(s.from-end))
		b = binary.AppendUvarint(b, uint64(s.to-s.from))
		end = s.to
	}
	return metadataForm + base64.RawURLEncoding.EncodeToString(b)
}

var errMetadata = errors.New("the metadata of the commit are not of idemsk redrive")

// readProgress returns the progress of a commit.
func readProgress(first int64, metadata string) (progress, error) {
	p := progress{first: first}
	if metadata == "" {
		return p, nil
	}
	text, ok := strings.CutPrefix(metadata, metadataForm)
	b, err := base64.RawURLEncoding.DecodeString(text)
	if !ok || err != nil {
		return p, fmt.Errorf("%w: %.60q", errMetadata, metadata)
	}
	const bits = 62 // no sum overflows
	for end := first; len(b) > 0; {
		gap, n := binary.Uvarint(b)
		length, m := binary.Uvarint(b[max(n, 0):])
		if n <= 0 || m <= 0 || gap == 0 || length == 0 || gap>>bits > 0 || length>>bits > 0 ||
			end+int64(gap)+int64(length) < end {
			return p, fmt.Errorf("%w: %.60q", errMetadata, metadata)
		}
		b = b[n+m:]
		s := span{end + int64(gap), end + int64(gap) + int64(length)}
		p.done = append(p.done, s)
		end = s.to
	}
	return p, nil
}
