package checkpoint

// Alive reports whether a process of this host lives. When in doubt it does,
// and on Windows, where hosts are never equal (see Host), it is not asked.
func Alive(int) bool { return true }
