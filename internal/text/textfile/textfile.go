// Package textfile reads text files of other programs.
package textfile

import (
	"bufio"
	"io"
)

const byteOrderMark = "\ufeff"

// New returns a reader of a text without the byte order mark that spreadsheets and some exports write at its
// beginning. It waits for the first byte, and only if that is one of the mark for another: the text may be
// typed.
func New(text io.Reader) *bufio.Reader {
	r := bufio.NewReader(text)
	for n := 1; n <= len(byteOrderMark); n++ {
		if begin, _ := r.Peek(n); string(begin) != byteOrderMark[:n] {
			// an error comes again when the text is read
			return r
		}
	}
	_, _ = r.Discard(len(byteOrderMark))
	return r
}
