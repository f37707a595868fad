package consumer

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// keeper commits at each interval, resumes partitions, and makes the surveys.
type keeper struct {
	member  *member
	client  *kgo.Client
	commits context.Context // of its requests
	stop    chan struct{}
	stopped sync.WaitGroup
}

// resumeInterval is the longest time after the end of an errorPause.
const resumeInterval = time.Second

func (k *keeper) start() {
	k.stopped.Go(k.keep)
	k.stopped.Go(k.survey)
}

func (k *keeper) keep() {
	commit, resume := time.NewTicker(k.member.cfg.CommitInterval), time.NewTicker(resumeInterval)
	defer commit.Stop()
	defer resume.Stop()
	for {
		select {
		case <-k.stop:
			return
		case <-commit.C:
			k.member.commit(k.commits, k.client)
		case now := <-resume.C:
			k.member.resume(k.client, now)
			k.member.beat(now)
		case <-k.member.wake:
			k.member.resume(k.client, time.Now())
		}
	}
}

// survey makes a survey at each interval, and when partitions were added.
func (k *keeper) survey() {
	ctx, cancel := context.WithCancel(k.commits)
	defer cancel()
	k.stopped.Go(func() {
		<-k.stop
		cancel()
	})
	each := time.NewTicker(surveyInterval)
	defer each.Stop()
	for {
		select {
		case <-k.stop:
			return
		case <-each.C:
		case <-k.member.added:
		}
		k.member.survey(ctx, k.client)
	}
}

// end ends the keeper after its commit in progress.
func (k *keeper) end() {
	close(k.stop)
	k.stopped.Wait()
}

func (m *member) beat(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.alive = now
}
