package local

import "testing"

// On other systems than Linux, the builds for Lambda and the one for the machine have different folders.
func TestFolderOfABuild(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"handler-amd64":              builtName("handler", "linux", "amd64", ""),
		"handler-arm64-postgres":     builtName("handler", "linux", "arm64", "postgres"),
		"handler-darwin-arm64-redis": builtName("handler", "darwin", "arm64", "redis"),
	} {
		if got != want {
			t.Errorf("%s; want %s", got, want)
		}
	}
}
