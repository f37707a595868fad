package dynamofake

import (
	"strings"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tokenEnd         tokenKind = iota
	tokenIdentifier            // a bare attribute name or a function's name
	tokenName                  // #placeholder
	tokenValue                 // :placeholder
	tokenKeyword               // of the grammar, in any case
	tokenPunctuation           // operators, brackets, and any character that belongs nowhere
)

// token is a part of an expression: its text is expression[start:end].
type token struct {
	kind       tokenKind
	text       string // keywords in upper case
	start, end int
}

// lexer splits an expression into tokens.
type lexer struct {
	text string
	pos  int
}

func (l *lexer) next() token {
	for l.pos < len(l.text) && strings.IndexByte(" \t\r\n", l.text[l.pos]) >= 0 {
		l.pos++
	}
	t := token{start: l.pos}
	if l.pos == len(l.text) {
		t.end = l.pos
		return t
	}
	t.kind, l.pos = l.scan()
	t.end = l.pos
	t.text = l.text[t.start:t.end]
	if t.kind == tokenIdentifier && isKeyword(t.text) {
		t.kind, t.text = tokenKeyword, strings.ToUpper(t.text)
	}
	return t
}

// scan returns the kind and the end of the token at the current position.
func (l *lexer) scan() (tokenKind, int) {
	c := l.text[l.pos]
	word := l.pos + 1 + wordLength(l.text[l.pos+1:])
	switch {
	case isLetter(c):
		return tokenIdentifier, word
	case c == '#' && word > l.pos+1:
		return tokenName, word
	case c == ':' && word > l.pos+1:
		return tokenValue, word
	case isDigit(c):
		return tokenPunctuation, l.pos + leadingDigits(l.text[l.pos:])
	}
	for _, operator := range [...]string{"<>", "<=", ">="} {
		if strings.HasPrefix(l.text[l.pos:], operator) {
			return tokenPunctuation, l.pos + len(operator)
		}
	}
	_, size := utf8.DecodeRuneInString(l.text[l.pos:])
	return tokenPunctuation, l.pos + size
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// wordLength returns how many characters of a name s begins with.
func wordLength(s string) int {
	n := 0
	for n < len(s) && (isLetter(s[n]) || isDigit(s[n]) || s[n] == '_') {
		n++
	}
	return n
}

func isKeyword(word string) bool {
	switch strings.ToUpper(word) {
	case "AND", "OR", "NOT", "BETWEEN", "IN", "SET", "REMOVE", "ADD", "DELETE":
		return true
	}
	return false
}
