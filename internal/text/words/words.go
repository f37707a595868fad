// Package words splits a command that a person writes, as a shell does.
package words

import (
	"errors"
	"strings"
)

// Split splits a command into its words as a shell does: at blanks that are not quoted or escaped. It expands
// nothing. Because no shell runs the command, the exit status is that of the function's process.
func Split(command string) ([]string, error) {
	var list []string
	var word strings.Builder
	begun := false // a quoted empty word is a word
	quote := rune(0)
	escaped := false
	for _, r := range command {
		switch {
		case escaped:
			if quote == '"' && r != '"' && r != '\\' {
				word.WriteRune('\\')
			}
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, begun = true, true
		case quote != 0:
			if r == quote {
				quote = 0
			} else {
				word.WriteRune(r)
			}
		case r == '\'' || r == '"':
			quote, begun = r, true
		case strings.ContainsRune(" \t\n", r):
			if begun {
				list = append(list, word.String())
				word.Reset()
				begun = false
			}
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if quote != 0 || escaped {
		return nil, errors.New("it ends inside a quote or after a backslash")
	}
	if begun {
		list = append(list, word.String())
	}
	if len(list) == 0 {
		return nil, errors.New("it is empty")
	}
	return list, nil
}

// Quote quotes a word for Split.
func Quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
