package providers

// SameName reports whether a platform takes two names for one: it passes over
// the case of the letters A to Z, and of nothing else. strings.EqualFold also
// takes ſ for s and the Kelvin sign for k, which are somebody else's names.
func SameName(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
