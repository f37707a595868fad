package flags

import (
	"errors"
	"strings"
)

// NameValues are the values of a flag that may be repeated, each as NAME=VALUE.
type NameValues []NameValue

// NameValue is one of them.
type NameValue struct{ Name, Value string }

// Add adds a value. It is for flag.Func.
func (all *NameValues) Add(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return errors.New("want NAME=VALUE")
	}
	*all = append(*all, NameValue{name, value})
	return nil
}
