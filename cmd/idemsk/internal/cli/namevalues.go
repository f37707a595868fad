package cli

import (
	"errors"
	"strings"
)

// nameValues are the values of a flag that may be repeated, each as NAME=VALUE.
type nameValues []nameValue

type nameValue struct{ name, value string }

func (all *nameValues) add(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return errors.New("want NAME=VALUE")
	}
	*all = append(*all, nameValue{name, value})
	return nil
}
