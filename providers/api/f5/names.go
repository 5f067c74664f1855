package f5

import (
	"fmt"
	"regexp"
)

var (
	poolName  = regexp.MustCompile(`^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$`)
	plainName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)
	groupName = regexp.MustCompile(`^(/[A-Za-z0-9_.-]+/)?[A-Za-z0-9_.-]+$`)
)

// CheckNames returns nil if these can be names, of the settings pool, partition
// and sync_group. There may be no group.
func CheckNames(pool, partition, group string) error {
	switch {
	case !poolName.MatchString(pool):
		return fmt.Errorf("pool %q, expected its name, or FOLDER/NAME, without the partition", pool)
	case !plainName.MatchString(partition):
		return fmt.Errorf("partition %q, expected its name such as Common", partition)
	case group != "" && !groupName.MatchString(group): // an argument of the device's command
		return fmt.Errorf("sync_group %q, expected the name of a device group", group)
	}
	return nil
}
