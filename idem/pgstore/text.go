package pgstore

import "strings"

// PostgreSQL's text holds any valid UTF-8 except NUL. For a unique form of every key, a backslash is doubled
// and a NUL is written as a backslash and a zero. Other texts are made valid first.

var (
	escaper   = strings.NewReplacer(`\`, `\\`, "\x00", `\0`)
	unescaper = strings.NewReplacer(`\\`, `\`, `\0`, "\x00")
)

// A Replacer also copies a text that has nothing to replace, as nearly all texts are.

func escape(s string) string {
	if s = strings.ToValidUTF8(s, "\uFFFD"); !strings.ContainsAny(s, "\\\x00") {
		return s
	}
	return escaper.Replace(s)
}

// escapeAll escapes each text.
func escapeAll(texts []string) []string {
	all := make([]string, len(texts))
	for i, text := range texts {
		all[i] = escape(text)
	}
	return all
}

func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	return unescaper.Replace(s)
}
