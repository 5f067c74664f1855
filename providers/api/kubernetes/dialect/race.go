package dialect

import (
	"fmt"

	"github.com/manent/action/providers"
)

// Tries bounds how often a patch that lost a race over something else than the
// weights is made again.
const Tries = 5

// LostRace reports whether a patch may have been refused because the document
// was not as read: a failed test is Invalid.
func LostRace(err error) bool {
	return providers.IsConflict(err) || providers.KindOf(err) == providers.Invalid
}

// Busy is a race that was lost each time.
func Busy() error {
	return &providers.Fault{Kind: providers.Conflict,
		Err:  fmt.Errorf("somebody else changed the object %d times in a row, its weights stayed", Tries),
		Hint: "look in its metadata.managedFields for who writes it all the time"}
}
