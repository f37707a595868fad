package layerproxy_test

import "testing"

// BenchmarkPassThrough is an invocation that is not from Kafka, with and without the layer.
func BenchmarkPassThrough(b *testing.B) {
	wrappedAndNot(b, func(b *testing.B, f *fixture) {
		f.answers([]byte(`{}`), `{}`)
		for b.Loop() {
			f.answers([]byte(`{}`), `{}`)
		}
	})
}

// BenchmarkColdStart is the start of a process until its first answer, with and without the layer.
func BenchmarkColdStart(b *testing.B) {
	wrappedAndNot(b, func(b *testing.B, f *fixture) {
		f.answers([]byte(`{}`), `{}`)
		for b.Loop() {
			f.function.Kill()
			f.answers([]byte(`{}`), `{}`)
		}
	})
}

func wrappedAndNot(b *testing.B, run func(b *testing.B, f *fixture)) {
	b.Run("with", func(b *testing.B) { run(b, newFixture(b, "")) })
	b.Run("without", func(b *testing.B) {
		f := newFixture(b, "")
		f.unwrapped()
		run(b, f)
	})
}
