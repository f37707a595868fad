package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// leave leaves the group. A static member stays, unless Config.LeaveGroup is set. Without an answer the
// brokers remove the member when its session times out.
//
// The client leaves when a rebalance that is in progress has ended. A rebalance that waits for a member that
// died can take longer than ctx: then the brokers are asked directly, and kill ends the client's requests,
// for which Close would wait.
func (m *member) leave(ctx context.Context, client *kgo.Client, kill context.CancelFunc) {
	deadline, _ := ctx.Deadline()
	half, cancel := context.WithDeadline(ctx, deadline.Add(-time.Until(deadline)/2)) //nolint:mnd // the other half is for the direct request
	defer cancel()
	err := client.LeaveGroupContext(half)
	late := errors.Is(err, context.DeadlineExceeded)
	if (late && m.cfg.InstanceID == "") || ((late || err == nil) && m.cfg.LeaveGroup) {
		// the client does not do it for a static member
		err = m.requestLeave(ctx, client)
	}
	if late {
		kill()
	}
	if err != nil {
		m.log.WarnContext(ctx, "leaving the group failed: its partitions are assigned to other members when the session times out", "error", err)
	}
}

// requestLeave asks the brokers to remove the member, a static one by its instance ID.
func (m *member) requestLeave(ctx context.Context, client *kgo.Client) error {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = m.cfg.Group
	one := kmsg.NewLeaveGroupRequestMember()
	if m.cfg.InstanceID != "" {
		one.InstanceID = &m.cfg.InstanceID
	} else {
		one.MemberID, _ = client.GroupMetadata()
		req.MemberID = one.MemberID // of brokers that take one member only
	}
	req.Members = append(req.Members, one)
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	for i := range resp.Members {
		if err := kerr.ErrorForCode(resp.Members[i].ErrorCode); err != nil {
			return err
		}
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}
