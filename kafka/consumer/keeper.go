package consumer

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// keeper commits at each interval, resumes partitions, and requests the ends of those that are not fetched.
type keeper struct {
	member  *member
	client  *kgo.Client
	commits context.Context // of its requests
	stop    chan struct{}
	stopped chan struct{}
}

// resumeInterval is the longest time after the end of an errorPause.
const resumeInterval = time.Second

func (k *keeper) run() {
	defer close(k.stopped)
	commit, resume, ends := time.NewTicker(k.member.cfg.CommitInterval), time.NewTicker(resumeInterval),
		time.NewTicker(endsInterval)
	defer commit.Stop()
	defer resume.Stop()
	defer ends.Stop()
	for {
		select {
		case <-k.stop:
			return
		case <-commit.C:
			k.member.commit(k.commits, k.client)
		case now := <-resume.C:
			k.member.resume(k.client, now)
			k.member.beat(now)
		case <-ends.C:
			k.member.requestEnds(k.commits, k.client)
		case <-k.member.added:
			k.member.requestEnds(k.commits, k.client)
		case <-k.member.wake:
			k.member.resume(k.client, time.Now())
		}
	}
}

// end ends the keeper after its commit in progress.
func (k *keeper) end() {
	close(k.stop)
	<-k.stopped
}

func (m *member) beat(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.alive = now
}
