package consumer

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// leave leaves the group. A static member stays, unless Config.LeaveGroup is set. Without an answer the brokers remove the member
// when its session times out.
func (m *member) leave(ctx context.Context, client *kgo.Client) {
	err := client.LeaveGroupContext(ctx)
	if err == nil && m.cfg.LeaveGroup {
		err = m.leaveAsStatic(ctx, client)
	}
	if err != nil {
		m.log.WarnContext(ctx, "leaving the group failed: its partitions are assigned to other members when the session times out", "error", err)
	}
}

// leaveAsStatic leaves the group by the instance ID, which the client does not do.
func (m *member) leaveAsStatic(ctx context.Context, client *kgo.Client) error {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = m.cfg.Group
	one := kmsg.NewLeaveGroupRequestMember()
	one.InstanceID = &m.cfg.InstanceID
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
