package plain

import (
	"regexp"
	"strings"
)

const hiddenPassword = "***"

var (
	userInfo    = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^\s"']*@`)
	passwordKey = regexp.MustCompile(`(?i)(passw(?:or)?d"?\s*[=:]\s*|\b(?:pwd|secret|token|api[-_]?key)=)("[^"]*"|'[^']*'|[^\s&;,]+)`)
)

// Redact hides what may be a password in a text from elsewhere, such as a library's error: the user part of URLs, and password=….
func Redact(text string) string {
	if strings.Contains(text, "://") {
		text = userInfo.ReplaceAllString(text, "${1}"+hiddenPassword+"@")
	}
	return passwordKey.ReplaceAllString(text, "${1}"+hiddenPassword)
}
