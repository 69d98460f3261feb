package cli

import "runtime/debug"

// Version is the release of this build, or its commit if the build set no release.
var Version = commit()

func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(unknown)"
	}
	return info.Main.Version
}
