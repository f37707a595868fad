package proof

import (
	"fmt"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/expect"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
)

// Lost says of each record that was delivered and has not ended as it must how it is lost.
func Lost(places []expect.Place, statuses map[string]store.Status, letters []kafka.DeadLetter) []string {
	dead := make(map[string]bool, len(letters))
	for i := range letters {
		dead[letters[i].IdempotencyKey] = true
	}
	var lost []string
	for _, place := range places {
		if how := lostHow(place, statuses[place.Key], dead[place.Key]); how != "" {
			lost = append(lost, fmt.Sprintf("record %s is lost or unsettled: %s (key %q)", place.Source, how, place.Key))
		}
	}
	return lost
}

func lostHow(place expect.Place, status store.Status, dead bool) string {
	want := store.StatusFailed
	if place.Fate == expect.Booked {
		want = store.StatusCompleted
	}
	switch {
	case status == want && (want == store.StatusCompleted || dead):
		return ""
	case status == want:
		return "its key is FAILED, but no dead letter was sent"
	case status == "":
		return "there is no item of its key"
	}
	return fmt.Sprintf("its key is %s, want %s", status, want)
}
