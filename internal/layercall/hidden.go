package layercall

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/idemsk/idemsk/internal/rawjson"
)

// checkAnswer returns an error for an answer that may name failed records where nothing reads them: it is not
// JSON, or it has what looks like the list of failures in another place or under another name. For AWS the
// first is a failure of all records, and the second is a success, because AWS finds no list. Here neither is a
// success: the records that failed would complete. The error does not quote the answer, which may have values
// of records.
func checkAnswer(answer []byte) error {
	if err := rawjson.Check(answer); err != nil {
		at := int64(len(answer))
		var malformed *json.SyntaxError
		if errors.As(err, &malformed) {
			at = malformed.Offset
		}
		return fmt.Errorf("the function's answer is not JSON, at byte %d of %d: %w: it must be JSON, or empty", at,
			len(answer), err)
	}
	if name, place := hidden(answer); name != "" {
		return fmt.Errorf("the function's answer names records in %q %s, where it is not read: "+
			`want {"%s":[…]} as the answer itself, not as text, in a list, or in a "body"`, name, place, listFailures)
	}
	return nil
}

// hidden returns the name of what looks like a list of failures, and where it is. It returns no name if the
// valid answer has none, or only the one that is read, or only lists that name no record.
func hidden(answer []byte) (name, place string) {
	text := bytes.TrimSpace(answer)
	var s search
	if text[0] != '{' {
		s.value(text, 0, "")
		return s.name, s.place
	}
	lists := 0
	_ = rawjson.Parts(text, func(key string, _, _ int) error {
		if key == listFailures {
			lists++
		}
		return nil
	})
	if lists > 1 {
		return listFailures, "twice"
	}
	s.listed = lists == 1
	_ = rawjson.Parts(text, func(key string, start, _ int) error {
		if key != listFailures && key != listResults {
			s.member(key, text, start, "at the top")
			return nil
		}
		within := search{listed: true} // its items have an itemIdentifier each
		within.value(text, start, "in "+key)
		s.note(within.name, within.place)
		return nil
	})
	return s.name, s.place
}

// search looks for lists of failures, and keeps the first that it finds.
type search struct {
	listed      bool // the answer has the list that is read: other fields with an itemIdentifier are its own
	name, place string
}

func (s *search) note(name, place string) {
	if s.name == "" {
		s.name, s.place = name, place
	}
}

// value searches the value that begins at i, and returns its end.
func (s *search) value(text []byte, i int, place string) (end int) {
	switch text[i] {
	case '{':
		end, _ = rawjson.Each(text, i, func(key string, start int) (int, error) {
			return s.member(key, text, start, place), nil
		})
		return end
	case '[':
		end, _ = rawjson.Each(text, i, func(_ string, start int) (int, error) {
			return s.value(text, start, "in a list"), nil
		})
		return end
	case '"':
		end = rawjson.Skip(text, i)
		s.text(rawjson.Text(text[i:end]))
		return end
	}
	return rawjson.Skip(text, i)
}

// member searches a member of an object. An itemIdentifier is in the items of a list, under whatever name.
func (s *search) member(key string, text []byte, start int, place string) (end int) {
	switch name := letters(key); {
	case name == "batchitemfailures", name == "batchitemfailure",
		!s.listed && (name == identifierLetters || name == identifierLetters+"s"):
		end = rawjson.Skip(text, start)
		if names(text[start:end]) {
			s.note(key, place)
		}
		return end
	}
	return s.value(text, start, "in an object")
}

// text searches a text, which may be an answer that was encoded once more, as JSON or in base64 (the
// isBase64Encoded of API Gateway), or printed in another notation.
func (s *search) text(content string) {
	const place = "in a text"
	trimmed := []byte(strings.TrimSpace(content))
	switch {
	case len(trimmed) > 0 && json.Valid(trimmed):
		s.value(trimmed, 0, place)
	case !s.listed && strings.Contains(letters(content), identifierLetters):
		s.note("itemIdentifier", place)
	case printedList.MatchString(content):
		s.note(listFailures, place)
	default:
		if decoded := fromBase64(trimmed); len(decoded) > 0 {
			s.text(string(decoded)) // it is shorter
		}
	}
}

// printedList is a list of failures that is not empty, in another notation than JSON, such as Python's.
var printedList = regexp.MustCompile(`(?i)batch[_-]?item[_-]?failures?["']?\s*(?::|=>?)\s*[\[({]\s*[^\s\])}]`)

// fromBase64 returns what a text has in base64, of either alphabet, with blanks or in a data URL, or nothing.
func fromBase64(text []byte) []byte {
	if _, data, ok := bytes.Cut(text, []byte(";base64,")); ok {
		text = data
	}
	text = bytes.TrimRight(bytes.Join(bytes.Fields(text), nil), "=")
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		decoded := make([]byte, encoding.DecodedLen(len(text)))
		if n, err := encoding.Decode(decoded, text); err == nil {
			return decoded[:n]
		}
	}
	return nil
}

// identifierLetters are the letters of the name itemIdentifier.
const identifierLetters = "itemidentifier"

// letters returns the letters of ASCII in a name, in lower case.
func letters(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return -1
	}, name)
}

// names reports whether a value may name records. Numbers and truth values do not.
func names(value []byte) bool {
	switch value[0] {
	case '"':
		content := strings.TrimSpace(rawjson.Text(value))
		return content != "" && (!json.Valid([]byte(content)) || names([]byte(content)))
	case '[', '{':
		return len(bytes.TrimSpace(value[1:len(value)-1])) > 0
	}
	return false
}
