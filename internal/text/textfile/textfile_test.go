package textfile_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/idemsk/idemsk/internal/text/textfile"
)

func TestTextsHaveNoByteOrderMark(t *testing.T) {
	for text, want := range map[string]string{
		"\ufeffa\n": "a\n", "a\ufeff": "a\ufeff", "\ufeff\ufeff": "\ufeff", "\ufeff": "", "": "", "a": "a",
		"\xef": "\xef", "\xef\xbba": "\xef\xbba",
	} {
		for _, r := range []io.Reader{strings.NewReader(text),
			iotest.OneByteReader(strings.NewReader(text))} {
			if got, err := io.ReadAll(textfile.New(r)); string(got) != want || err != nil {
				t.Errorf("%q: %q, %v; want %q", text, got, err, want)
			}
		}
	}
	failed := errors.New("disk")
	if _, err := io.ReadAll(textfile.New(iotest.ErrReader(failed))); !errors.Is(err, failed) {
		t.Errorf("%v; want the error of the file", err)
	}
}

// A short first line that is typed is read before there is another.
func TestTypedLineIsReadAtOnce(t *testing.T) {
	r, w := io.Pipe()
	go func() { _, _ = w.Write([]byte("a\n")) }() // and does not close it
	if line, err := textfile.New(r).ReadString('\n'); line != "a\n" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
}
