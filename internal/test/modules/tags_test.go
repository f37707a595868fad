package modules_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	constraint = regexp.MustCompile(`(?m)^//go:build ([a-z]+)$`)
	given      = regexp.MustCompile(`(?m)^.*go test .*-tags ([a-z,]+)`)
)

// go test silently omits files with a build tag. make test and make test-rest set each tag that a test file has.
func TestEveryBuildTagIsSet(t *testing.T) {
	tags := map[string]bool{"linux": true, "unix": true}
	for _, path := range []string{"../../../scripts/test.sh", "../../../scripts/test-rest.sh", "../../../Makefile"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range given.FindAllSubmatch(text, -1) {
			for tag := range strings.SplitSeq(string(line[1]), ",") {
				tags[tag] = true
			}
		}
	}
	wanted := 0
	err := filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "dist" || d.Name() == "node_modules" ||
			strings.HasPrefix(d.Name(), ".") && d.Name() != ".."):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if m := constraint.FindSubmatch(text); m != nil {
			wanted++
			if !tags[string(m[1])] {
				t.Errorf("%s wants the tag %s, which neither make test nor make test-rest gives", path, m[1])
			}
		}
		return err
	})
	if err != nil || wanted == 0 {
		t.Errorf("%v; %d tests want a tag", err, wanted)
	}
}
