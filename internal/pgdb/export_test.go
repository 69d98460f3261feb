package pgdb

import "time"

// SetAnswerTime changes how long an answer may take, for all databases.
func SetAnswerTime(d time.Duration) { answerTime = d }
