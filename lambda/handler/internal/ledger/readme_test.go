package ledger

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The README has the variables that the example reads beside the library's.
func TestVariablesAreDocumented(t *testing.T) {
	const example = "../.."
	readme, err := os.ReadFile(filepath.Join(example, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`IDEMSK_[A-Z_]+`)
	documented := names.FindAllString(string(readme), -1)
	var read []string
	err = filepath.WalkDir(example, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		code, err := os.ReadFile(path)
		for _, quoted := range regexp.MustCompile(`"IDEMSK_[A-Z_]+"`).FindAllString(string(code), -1) {
			read = append(read, strings.Trim(quoted, `"`))
		}
		return err
	})
	if err != nil || len(read) == 0 {
		t.Fatalf("%d variables found: %v", len(read), err)
	}
	for _, name := range read {
		if !slices.Contains(documented, name) {
			t.Errorf("README.md does not name %s", name)
		}
	}
	for _, name := range documented {
		if !slices.Contains(read, name) {
			t.Errorf("README.md names %s, which is not read", name)
		}
	}
}
