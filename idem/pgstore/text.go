package pgstore

import "strings"

// PostgreSQL's text holds any valid UTF-8 except NUL. For a unique form of every key, a backslash is doubled
// and a NUL is written as a backslash and a zero. Other texts are made valid first.

var (
	escaper   = strings.NewReplacer(`\`, `\\`, "\x00", `\0`)
	unescaper = strings.NewReplacer(`\\`, `\`, `\0`, "\x00")
)

func escape(s string) string { return escaper.Replace(strings.ToValidUTF8(s, "\uFFFD")) }

func unescape(s string) string { return unescaper.Replace(s) }
