package proto

import (
	"bytes"
	"slices"
	"strings"
)

// usedOptions are the options that change how data is decoded, or what a file may have.
var usedOptions = []string{"default", "json_name", "packed", "features", "allow_alias", "message_set_wire_format",
	"deprecated_legacy_json_field_conflicts"}

// isUsed reports whether an option is to be kept. Its text begins with its name. A part in parentheses is
// defined in a file that a registry need not have.
func isUsed(option []byte) bool {
	name, _, _ := strings.Cut(string(option), "=")
	first, _, _ := strings.Cut(strings.TrimSpace(name), ".")
	return slices.Contains(usedOptions, first) && !strings.Contains(name, "(")
}

// source is the text of a file.
type source []byte

// withoutOptions returns a file with blanks in the place of the options that are not to be kept. It does so
// before the file is parsed, because registries also admit values that protoc does not: lists.
func withoutOptions(text string) string {
	s, before := source(text), byte(';') // the last byte that is no blank
	for i := s.blanks(0); i < len(s); i = s.blanks(i) {
		end := s.token(i)
		switch {
		case string(s[i:end]) == "option" && strings.IndexByte(";{}", before) >= 0:
			name := s.blanks(end)
			end = min(s.find(name, ";")+1, len(s))
			if before = ';'; !isUsed(s[name:end]) {
				s.clear(i, end)
			}
		case s[i] == '[':
			before, end = s[i], s.clearList(i)
		default:
			before = s[i]
		}
		i = end
	}
	return string(s)
}

// clearList clears options in the list that begins at i, and returns its end.
func (s source) clearList(i int) (end int) {
	kept := false
	for before := i; ; before = end { // the bracket or the comma before an option
		end = s.find(before+1, ",]")
		used := isUsed(s[s.blanks(before+1):end])
		if !used {
			s.clear(before+1, end)
		}
		if before > i && (!kept || !used) {
			s.clear(before, before+1)
		}
		kept = kept || used
		if end == len(s) || s[end] == ']' {
			break
		}
	}
	end = min(end+1, len(s))
	if !kept {
		s.clear(i, end)
	}
	return end
}

// clear puts blanks in the place of a part of the text. The lines stay as they are.
func (s source) clear(i, end int) {
	for ; i < end; i++ {
		if s[i] != '\n' {
			s[i] = ' '
		}
	}
}

// find returns the place of the first of some bytes that is in no brackets, or the end of the text.
func (s source) find(i int, wanted string) int {
	for depth := 0; i < len(s); i = s.token(i) {
		switch {
		case depth == 0 && strings.IndexByte(wanted, s[i]) >= 0:
			return i
		case strings.IndexByte("[{(", s[i]) >= 0:
			depth++
		case strings.IndexByte("]})", s[i]) >= 0:
			depth--
		}
	}
	return len(s)
}

// token returns the end of the token that begins at i: a word, a text, a comment or another byte.
func (s source) token(i int) int {
	switch rest := s[i:]; {
	case bytes.HasPrefix(rest, []byte("//")):
		return s.after(i+2, "\n")
	case bytes.HasPrefix(rest, []byte("/*")):
		return s.after(i+2, "*/")
	case rest[0] == '"' || rest[0] == '\'':
		for end := i + 1; end < len(s); end++ {
			switch s[end] {
			case '\\':
				end++
			case rest[0]:
				return end + 1
			}
		}
		return len(s)
	}
	end := i
	for end < len(s) && (s[end] == '_' || s[end] >= '0' && s[end] <= '9' || s[end]|0x20 >= 'a' && s[end]|0x20 <= 'z') {
		end++
	}
	return max(end, i+1)
}

// blanks returns the end of the blanks and comments that begin at i.
func (s source) blanks(i int) int {
	for i < len(s) && (strings.IndexByte(" \t\r\n\f\v", s[i]) >= 0 || s[i] == '/') {
		i = s.token(i)
	}
	return i
}

// after returns the end of the first text after i, or of the file.
func (s source) after(i int, text string) int {
	if n := bytes.Index(s[min(i, len(s)):], []byte(text)); n >= 0 {
		return i + n + len(text)
	}
	return len(s)
}
