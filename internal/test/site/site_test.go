//go:build rest

package site_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The site has a page for each document that docs/README.md names, each with the text of its document, and
// loads nothing from another host.
func TestSite(t *testing.T) {
	root, folder := repository(t), t.TempDir()
	if out, err := build(t, root, folder); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	foreign := regexp.MustCompile(`<(?:script|img|iframe)[^>]* src="?https?:|` +
		`<link[^>]* rel="?(?:stylesheet|preconnect)"?[^>]* href="?https?:`)
	pages := 0
	err := filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".html" {
			return err
		}
		text, err := os.ReadFile(path)
		if m := foreign.Find(text); m != nil {
			t.Errorf("%s loads from another host: %s", path, m)
		}
		pages++
		return err
	})
	const least = 30
	if err != nil || pages < least {
		t.Errorf("%d pages, %v; want %d or more", pages, err, least)
	}
	for page, text := range map[string]string{
		"index.html":           "The guide has all pages", // no link to the page itself
		"infra/cdk/index.html": "alarmEmail", "search/search_index.json": "dead letter",
		"sitemap.xml": "<loc>https://docs.example.com/idemsk/quickstart.html</loc>",
		"404.html":    `href="/idemsk/quickstart.html"`, // it is served for any path
	} {
		if got, err := os.ReadFile(filepath.Join(folder, page)); err != nil ||
			!strings.Contains(string(got), text) {
			t.Errorf("%s: %v; want it to have %q", page, err, text)
		}
	}
}

// A link, an anchor or an entry of the index that leads nowhere, and a document that the index lacks, are errors
// that name it.
func TestBrokenLinksAreErrors(t *testing.T) {
	for says, change := range map[string][2]string{
		"nowhere.md":  {"docs/atomic.md", "\n[a link](nowhere.md)\n"},
		"#nowhere":    {"docs/atomic.md", "\n[an anchor](stores.md#nowhere)\n"},
		"missing.md":  {"docs/README.md", "- [An entry](missing.md)\n"},
		"lonely.md":   {"docs/lonely.md", "# A page that the index lacks\n"},
		"absent/file": {"infra/cdk/README.md", "\n[a source](../../absent/file.go)\n"},
	} {
		root := copyOf(t, repository(t))
		page := filepath.Join(root, change[0])
		file, err := os.OpenFile(page, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString(change[1]); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		if out, err := build(t, root, t.TempDir()); err == nil || !strings.Contains(out, says) {
			t.Errorf("%s with %q: %v:\n%s\nwant an error that says %s", change[0], change[1], err, out, says)
		}
	}
}

func repository(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// build builds the site of a folder with the clone's tools.
func build(t *testing.T, root, folder string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "scripts/site.sh"), folder)
	cmd.Env = append(os.Environ(), "SITE_VERSION=v0.0.0-test",
		"SITE_URL=https://docs.example.com/idemsk/")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// copyOf returns a copy of the files of a clone that git has or would add, with its installed tools.
func copyOf(t *testing.T, root string) string {
	t.Helper()
	folder := t.TempDir()
	for _, command := range []string{
		`git ls-files -co --exclude-standard -z | xargs -0 cp --parents -t "$FOLDER"`,
		`mkdir "$FOLDER/.cache" && ln -s "$PWD/.cache/site" "$FOLDER/.cache/site"`,
	} {
		cmd := exec.CommandContext(t.Context(), "bash", "-c", command)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "FOLDER="+folder)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
	}
	return folder
}
