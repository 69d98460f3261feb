package change

import (
	"fmt"
	"strconv"
)

// LogVersion is the version of the log's format: of records, headers and control records. It is raised only when an older release
// would misread what a newer one writes, and not for what an older release may ignore. Control records have it as version. The
// record of a change has HeaderVersion, if its format is not the format of version 1.
const LogVersion = 1

// NewerVersionError says that a record of the log was written by a release whose format this one does not know.
type NewerVersionError struct {
	Record  string
	Version string
}

func (e *NewerVersionError) Error() string {
	return fmt.Sprintf("%s has the format of version %s, which a newer release has written, and this one knows up to "+
		"version %d: "+
		"run the newer release; nothing was written", e.Record, e.Version, LogVersion)
}

// CheckVersion checks HeaderVersion of a change's record. The error is *NewerVersionError.
func CheckVersion(header string) error {
	if version, err := strconv.Atoi(header); header == "" || err == nil && version <= LogVersion {
		return nil
	}
	return &NewerVersionError{Record: "a record", Version: header}
}
