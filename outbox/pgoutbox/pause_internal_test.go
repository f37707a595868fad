package pgoutbox

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Each topic that is unavailable is tried again after pauses that double, one at a time; when one is available
// again, the others are due.
func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPauses(time.Second)
		want := func(tried string, without ...string) {
			t.Helper()
			got, due := p.begin()
			slices.Sort(got)
			if due != tried || !slices.Equal(got, without) {
				t.Fatalf("it tries %q, without %q; want %q, without %q", due, got, tried, without)
			}
		}
		extend := func(topic string, tried bool, want time.Duration) {
			t.Helper()
			if length, begun := p.extend(topic, tried); length != want || begun != (want > 0) {
				t.Fatalf("%s: %v, %t; want %v", topic, length, begun, want)
			}
		}
		want("")
		extend("a", false, 50*time.Millisecond)
		extend("a", false, 0) // of another worker
		<-time.After(20 * time.Millisecond)
		extend("b", false, 50*time.Millisecond)
		want("", "a", "b")
		<-time.After(30 * time.Millisecond)
		want("a", "b")
		<-time.After(30 * time.Millisecond)
		want("", "a", "b") // one at a time
		extend("a", true, 100*time.Millisecond)
		p.end("a", nil)
		want("b", "a")
		extend("b", true, 100*time.Millisecond)
		p.end("b", nil)
		<-time.After(100 * time.Millisecond)
		want("a", "b")
		extend("a", true, 200*time.Millisecond)
		p.end("a", nil)
		want("b", "a")
		p.end("b", map[string]bool{"c": true}) // it had no event of b: another worker has its shards
		want("", "a", "b")
		<-time.After(50 * time.Millisecond)
		want("b", "a")
		p.end("b", map[string]bool{"b": true})
		for length := 400 * time.Millisecond; length < 10*time.Second; length *= 2 {
			want("a")
			extend("a", true, min(length, time.Second))
			p.end("a", nil)
			want("", "a")
			<-time.After(min(length, time.Second))
		}
		want("a")
		p.end("a", map[string]bool{"a": true})
		want("")
	})
}
