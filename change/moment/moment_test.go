package moment_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"kubecdc/change/moment"
)

const all = moment.Times | moment.Versions | moment.Checkpoints | moment.Start

var zone = time.FixedZone("here", 2*60*60)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 5, zone)

func TestAMomentIsReadInTheFormsThatACommandTakes(t *testing.T) {
	for text, want := range map[string]struct {
		form  moment.Form
		means func(moment.Moment) bool
	}{
		"now":                  {0, func(m moment.Moment) bool { return m == moment.Moment{} }},
		"end":                  {0, func(m moment.Moment) bool { return m == moment.Moment{} }},
		"start":                {moment.Start, func(m moment.Moment) bool { return m.Start }},
		"123456":               {moment.Versions, func(m moment.Moment) bool { return m.Version == "123456" }},
		"3/17":                 {moment.Checkpoints, func(m moment.Moment) bool { return *m.Batch == moment.Batch{Slot: 3, Number: 17} }},
		"90m":                  {moment.Times, func(m moment.Moment) bool { return m.Time.Equal(noon.Truncate(time.Second).Add(-90 * time.Minute)) }},
		"7d":                   {moment.Times, isAt("2026-05-25T10:00:00Z")},
		"1w":                   {moment.Times, isAt("2026-05-25T10:00:00Z")},
		"1d12h":                {moment.Times, isAt("2026-05-30T22:00:00Z")},
		"1h30m":                {moment.Times, isAt("2026-06-01T08:30:00Z")},
		"2026-06-01T09:00:00Z": {moment.Times, isAt("2026-06-01T09:00:00Z")},
		"2026-06-01T09:00:01":  {moment.Times, isAt("2026-06-01T07:00:01Z")},
		"2026-06-01 09:00":     {moment.Times, isAt("2026-06-01T07:00:00Z")},
		"2026-06-01 09:00:00Z": {moment.Times, isAt("2026-06-01T09:00:00Z")},
		"2026-06-01":           {moment.Times, isAt("2026-05-31T22:00:00Z")},
		"09:00":                {moment.Times, isAt("2026-06-01T07:00:00Z")},
		"11:59:59":             {moment.Times, isAt("2026-06-01T09:59:59Z")},

		"2h ago":                   {moment.Times, isAt("2026-06-01T08:00:00Z")},
		"-2h":                      {moment.Times, isAt("2026-06-01T08:00:00Z")},
		"1.5h":                     {moment.Times, isAt("2026-06-01T08:30:00Z")},
		"10min":                    {moment.Times, isAt("2026-06-01T09:50:00Z")},
		"1 hour ago":               {moment.Times, isAt("2026-06-01T09:00:00Z")},
		"1 hour 30 minutes ago":    {moment.Times, isAt("2026-06-01T08:30:00Z")},
		"2 days":                   {moment.Times, isAt("2026-05-30T10:00:00Z")},
		"1h30min":                  {moment.Times, isAt("2026-06-01T08:30:00Z")},
		"@1764416000":              {moment.Times, isAt("2025-11-29T11:33:20Z")},
		"today":                    {moment.Times, isAt("2026-05-31T22:00:00Z")},
		"yesterday":                {moment.Times, isAt("2026-05-30T22:00:00Z")},
		"Yesterday 10:30":          {moment.Times, isAt("2026-05-31T08:30:00Z")},
		"mon":                      {moment.Times, isAt("2026-05-31T22:00:00Z")}, // the day itself
		"tuesday":                  {moment.Times, isAt("2026-05-25T22:00:00Z")},
		"sun 10:30:01":             {moment.Times, isAt("2026-05-31T08:30:01Z")},
		"2026-05-25 10:30 +0200":   {moment.Times, isAt("2026-05-25T08:30:00Z")},
		"2026-05-25T10:30+02:00":   {moment.Times, isAt("2026-05-25T08:30:00Z")},
		"2026-05-25T10:30Z":        {moment.Times, isAt("2026-05-25T10:30:00Z")},
		"10:30 +0300":              {moment.Times, isAt("2026-06-01T07:30:00Z")},
		"0001-01-01T00:00:00Z":     {moment.Times, func(m moment.Moment) bool { return m != moment.Moment{} && m.Time.Year() == 1 }},
		"yesterday 10:30:00 -0100": {moment.Times, isAt("2026-05-31T11:30:00Z")},
	} {
		m, err := want.form.Parse(text, noon)
		if err != nil || !want.means(m) {
			t.Errorf("%q is read as %+v, %v", text, m, err)
		}
		if want.form == 0 {
			continue
		}
		if m, err := (all &^ want.form).Parse(text, noon); err == nil || !strings.Contains(err.Error(), "is none of: ") {
			t.Errorf("%q is read as %+v, %v by a command that takes no such moment", text, m, err)
		}
	}
}

// A local time that clocks showed twice, or not at all, is refused with what it may mean. A day begins when its date does.
func TestALocalTimeIsReadIfItIsClear(t *testing.T) {
	for _, c := range []struct {
		zone, text string
		forms      moment.Form
		want       string // the time, or parts of the error
	}{
		{"Europe/Berlin", "2025-10-26 01:59:59", all, "2025-10-25T23:59:59Z"},
		{"Europe/Berlin", "2025-10-26T02:30", all, "was here twice, 2025-10-26T02:30:00+02:00 or 2025-10-26T02:30:00+01:00, UTC 2025-10-26T02:30:00Z"},
		{"Europe/Berlin", "2025-10-26T02:30:00.25", all, "2025-10-26T02:30:00.25+02:00 or 2025-10-26T02:30:00.25+01:00"},
		{"Europe/Berlin", "2025-10-26T02:30+02:00", all, "2025-10-26T00:30:00Z"},
		{"Europe/Berlin", "2025-10-26T03:00", all, "2025-10-26T02:00:00Z"},
		{"Europe/Berlin", "2025-03-30T02:30", all, "left out, 2025-03-30T03:30:00+02:00 or 2025-03-30T01:30:00+01:00, UTC 2025-03-30T02:30:00Z"},
		{"America/Santiago", "2025-09-07", all, "2025-09-07T04:00:00Z"}, // its midnight was left out
		{"America/Havana", "2025-11-02", all, "2025-11-02T04:00:00Z"},   // its midnight was there twice
		{"America/Havana", "2025-11-02T00:00", all, "was here twice"},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		m, err := c.forms.Parse(c.text, noon.In(zone))
		if err == nil && m.Time.UTC().Format(time.RFC3339Nano) == c.want {
			continue
		}
		got := fmt.Sprint(m.Time.UTC().Format(time.RFC3339Nano), err)
		for _, part := range strings.Split(c.want, ", ") {
			if err == nil || !strings.Contains(got, part) {
				t.Errorf("%q in %s is %s, want %s", c.text, c.zone, got, c.want)
			}
		}
	}
	for text, want := range map[string]bool{"2026-05-01T09:00": true, "09:00": true, "09:00Z": true, "mon 09:00Z": true, "2026-05-01T09:00Z": false, "2h": false, "@1764416000": false} {
		if m, err := all.Parse(text, noon); err != nil || m.IsLocal != want {
			t.Errorf("%s: local is %v, %v", text, m.IsLocal, err)
		}
	}
}

func isAt(text string) func(moment.Moment) bool {
	return func(m moment.Moment) bool { return m.Time.UTC().Format(time.RFC3339) == text }
}

func TestNoMoment(t *testing.T) {
	for _, text := range []string{"", "tomorrow", "ago", "2 ago", "yesterday ago", "monx", "today 13:00", "yesterday 25:00", "mon tue", "0/x", "0/0", "-1/3", "0", "2026-06-01T10:00:01Z",
		"12:01", "2026-06-02", "2026-06-31", "2026-06-01T"} {
		if m, err := all.Parse(text, noon); err == nil {
			t.Errorf("%q is read as %+v", text, m)
		}
	}
}

// At night, a time of the evening means yesterday's.
func TestATimeThatHasNotComeOffersYesterdays(t *testing.T) {
	for text, want := range map[string]bool{"23:30": true, "23:30:01": true, "2026-06-01T23:30:00": false, "@99999999999": false} {
		_, err := moment.Times.Parse(text, noon)
		if err == nil || strings.Contains(err.Error(), "yesterday "+text) != want || !strings.Contains(err.Error(), "has not come yet") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
