package config

import (
	"net/url"
	"os"
	"strings"
)

// checkPasswordFile checks that a password file can be read and is not empty. It is read again at each login.
func (l *loader) checkPasswordFile(name, file string) {
	text, err := os.ReadFile(file)
	switch {
	case err != nil:
		l.add(name, fileError(err), "name a file that this user can read")
	case strings.TrimRight(string(text), "\r\n") == "":
		l.add(name, "the file is empty", "write the password into it")
	}
}

// checkPostgresPassword checks the password file of a Postgres database. setting is the setting with its URL.
func (l *loader) checkPostgresPassword(setting string, d DSN, file string) {
	name := setting + "_PASSWORD_FILE"
	if file == "" {
		return
	}
	u, err := url.Parse(d.Reveal())
	switch {
	case err != nil: // reported for the URL
	case !strings.HasPrefix(u.Scheme, "postgres"):
		l.add(name, "set, but "+setting+" names no Postgres database", "set "+setting+"=postgres://USER@HOST/DB, or leave it out")
	case passwordIn(u):
		l.add(name, "set, but the URL in "+setting+" has a password too", "leave one of the two out")
	default:
		l.checkPasswordFile(name, file)
	}
}

func passwordIn(u *url.URL) bool {
	_, set := u.User.Password()
	return set || u.Query().Has("password")
}
