package pgserver

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// serverUser returns the user that runs the server: nil for the caller, or another user if the caller is
// root, because PostgreSQL refuses to run as root.
func serverUser() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // the caller itself
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			continue
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			continue
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, fmt.Errorf("pgserver: PostgreSQL does not run as root, and " +
		"there is neither a user postgres nor a user nobody to run it as: run the tests as another user")
}

// give makes the server's user the owner of a path.
func give(path string, to *syscall.Credential) error {
	if to == nil {
		return nil
	}
	return os.Chown(path, int(to.Uid), int(to.Gid))
}
