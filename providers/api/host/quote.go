package host

import "strings"

// Quote writes an argument vector as text for a POSIX shell, which takes it
// apart into exactly these arguments again.
func Quote(args ...string) string {
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = quoteOne(arg)
	}
	return strings.Join(quoted, " ")
}

const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_/.:@%+,-"

func quoteOne(arg string) string {
	if arg != "" && strings.Trim(arg, plain) == "" {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}
