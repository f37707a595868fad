package testkit

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// Overlay writes the texts of changed files, by their absolute paths, and returns the file for the flag
// -overlay of the go command.
func Overlay(tb testing.TB, texts map[string]string) string {
	tb.Helper()
	dir := tb.TempDir()
	replaced := make(map[string]string, len(texts))
	for path, text := range texts {
		replaced[path] = filepath.Join(dir, strconv.Itoa(len(replaced))+filepath.Base(path))
		if err := os.WriteFile(replaced[path], []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	overlay := filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]map[string]string{"Replace": replaced})
	if err = errors.Join(err, os.WriteFile(overlay, list, 0o600)); err != nil {
		tb.Fatal(err)
	}
	return overlay
}
