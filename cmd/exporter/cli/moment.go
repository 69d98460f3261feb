package cli

import (
	"time"

	"kubecdc/change/moment"
	"kubecdc/internal/fault"
)

// ParseMoment parses a moment in a flag or an argument. It returns a fault.Usage that names the flag.
func ParseMoment(name, text string, forms moment.Form) (moment.Moment, error) {
	m, err := forms.Parse(text, time.Now())
	if err != nil {
		return m, fault.Usage(name + ": " + err.Error())
	}
	return m, nil
}

// SinceForms are the moments at which a question about changes can begin.
const SinceForms = moment.Times | moment.Checkpoints
