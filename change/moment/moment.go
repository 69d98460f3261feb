// Package moment is how users write a point of the past: one grammar for all commands, with one help text and one error. The
// packages query and replay know what a moment stands for in a log.
package moment

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"kubecdc/change"
)

// Moment is a point of the past. One of its fields is set, without IsAgo and IsLocal. If none is set, it is the end of the log.
type Moment struct {
	Time    time.Time              // on the clock that the command chooses
	Version change.ResourceVersion // a version of one resource
	Batch   *Batch                 // what the log had with it
	Start   bool                   // the start of the log
	IsAgo   bool                   // Time was written as how long ago it was
	IsLocal bool                   // Time was written without a zone, or without a date
}

// Batch names a batch of a slot, and with that a checkpoint.
type Batch struct {
	Slot   int
	Number uint64
}

func (b Batch) String() string { return fmt.Sprintf("%d/%d", b.Slot, b.Number) }

// Form is a set of ways to write a moment. The end of the log can be written in each.
type Form int

// The forms.
const (
	Times Form = 1 << iota
	Versions
	Checkpoints
	Start
)

var forms = []struct {
	form           Form
	written, means string
}{
	{Times, "2026-11-22T10:53:56Z", "a time; without Z or an offset in the zone of this machine"},
	{Times, "2026-11-22", "the start of a day; also yesterday, monday, 2026-11-22 10:53 +0200, or 10:53 of today"},
	{Times, "2h", "how long ago: 30s, 90m, 1.5h, 7d, 1 hour ago; or @1764416000, Unix time"},
	{Versions, "123456", "a resourceVersion"},
	{Checkpoints, "0/1234", "a checkpoint, as exporter checkpoints list names it"},
	{Start, "start", "the start of the log"},
	{0, "now", "the end of the log"},
}

// Help is a line for each way to write a moment.
func (f Form) Help() string {
	var b strings.Builder
	for _, each := range forms {
		if each.form == each.form&f {
			fmt.Fprintf(&b, "\n  %-22s %s", each.written, each.means)
		}
	}
	return b.String()
}

// Parse reads a moment in one of the forms. A time is not in the future, and a duration before now is rounded to seconds, as
// objects' times are. The end of the log may be called end too.
func (f Form) Parse(text string, now time.Time) (Moment, error) {
	if m, form, err := f.read(text, now); form == form&f {
		return m, err
	}
	var ways []string
	for _, each := range forms {
		if means, _, _ := strings.Cut(each.means, ";"); each.form == each.form&f {
			means, _, _ = strings.Cut(means, ":")
			ways = append(ways, means+" ("+each.written+")")
		}
	}
	return Moment{}, fmt.Errorf("%q is none of: %s", text, strings.Join(ways, "; "))
}

// none is no form.
const none = Form(1 << 30)

func (f Form) read(text string, now time.Time) (Moment, Form, error) {
	switch text {
	case "now", "end":
		return Moment{}, 0, nil
	case "start":
		return Moment{Start: true}, Start, nil
	case "0": // no version, and no time ago
		return Moment{}, none, nil
	}
	if v := change.ResourceVersion(text); v.Valid() {
		return Moment{Version: v}, Versions, nil
	}
	if slot, batch, ok := strings.Cut(text, "/"); ok {
		n, err1 := strconv.Atoi(slot)
		b, err2 := strconv.ParseUint(batch, 10, 64)
		if err1 == nil && err2 == nil && n >= 0 && b > 0 {
			return Moment{Batch: &Batch{n, b}}, Checkpoints, nil
		}
	}
	if back, ok := durationOf(text); ok {
		return Moment{Time: now.Add(-back).Truncate(time.Second), IsAgo: true}, Times, nil
	}
	if seconds, err := strconv.ParseFloat(strings.TrimPrefix(text, "@"), 64); err == nil && text[0] == '@' && seconds > 0 &&
		seconds < 1e11 {
		return since(text, Moment{Time: time.UnixMilli(int64(seconds * 1000))}, now)
	}
	t, isLocal, err := parseTime(text, now)
	switch {
	case errors.As(err, new(*unclearError)):
		return Moment{}, Times, err
	case err != nil:
		return Moment{}, none, nil
	}
	return since(text, Moment{Time: t, IsLocal: isLocal}, now)
}

// since returns a time that has come.
func since(text string, m Moment, now time.Time) (Moment, Form, error) {
	if m.Time.After(now) {
		why := text + " has not come yet: now is the end of the log"
		if before := m.Time.AddDate(0, 0, -1); undated.MatchString(text) && !before.After(now) {
			why += ", and yesterday " + text + " was the last one"
		}
		return Moment{}, Times, errors.New(why)
	}
	if m.Time.IsZero() { // which would be the end of the log
		m.Time = m.Time.Add(1)
	}
	return m, Times, nil
}

var undated = regexp.MustCompile(`^\d\d?:`)

// amount is a part of a duration in words, such as 1.5h or 10 minutes.
var amount = regexp.MustCompile(`^(\d+(?:\.\d+)?) ?(s|m|h|d|w|secs?|mins?|hrs?|seconds?|minutes?|hours?|days?|weeks?)(?: |$|(\d))`)

var units = map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour,
	'w': 7 * 24 * time.Hour}

// durationOf reads how long ago something was: 2h, -2h, 1.5h, 10min, 1 hour 30 minutes ago.
func durationOf(text string) (ago time.Duration, ok bool) {
	text = strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(text, "-"), " ago"))
	if d, err := model.ParseDuration(text); err == nil {
		return time.Duration(d), true
	}
	for text != "" {
		m := amount.FindStringSubmatch(text)
		if m == nil {
			return 0, false
		}
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil || n > 1e6 {
			return 0, false
		}
		ago += time.Duration(n * float64(units[m[2][0]]))
		text = strings.TrimSpace(text[len(m[0])-len(m[3]):])
		ok = true
	}
	return ago, ok
}

// layouts are the layouts of a time after a date. A blank may stand for the T.
var layouts = []string{"T15:04:05", "T15:04", "", "T15:04:05Z07:00", "T15:04Z07:00", "T15:04:05T-0700", "T15:04T-0700"}

// parseTime reads a time. A time without a zone is in the zone of now. A time without a date is on the day of now. Both are
// local.
func parseTime(text string, now time.Time) (t time.Time, isLocal bool, err error) {
	given, text := text, strings.ReplaceAll(text, " ", "T")
	if t, err = time.Parse(time.RFC3339Nano, text); err == nil {
		return t, false, nil
	}
	word, rest, _ := strings.Cut(text, "T")
	day, isDay := dayOf(strings.ToLower(word), now)
	if isDay {
		text = day.Format(time.DateOnly) + strings.TrimRight("T"+rest, "T")
	}
	for _, layout := range layouts {
		for i, dated := range []string{text, now.Format(time.DateOnly) + "T" + text} {
			if t, err = time.ParseInLocation(time.DateOnly+layout, dated, time.UTC); err != nil {
				continue
			}
			hasOffset := strings.Contains(layout, "07")
			if !hasOffset {
				t, err = onlyReading(given, t, now.Location(), layout == "")
			}
			return t, !hasOffset || isDay || i > 0, err
		}
	}
	return t, false, err
}

// unclearError says that a text stands for no time, or for several ones.
type unclearError struct {
	text, why string
	time      time.Time // as if the text were in UTC
	readings  []time.Time
}

func (e *unclearError) Error() string {
	text := fmt.Sprintf("%s %s: write it as 2026-11-22T10:53:56+01:00", e.text, e.why)
	for i, t := range e.readings {
		text += []string{", here ", " or "}[min(i, 1)] + t.Format(time.RFC3339Nano)
	}
	return text + ", in UTC " + e.time.Format(time.RFC3339Nano)
}

// onlyReading returns the time at which a local clock showed what t shows in UTC. It has to be one, or the start of a day.
func onlyReading(text string, t time.Time, local *time.Location, isDay bool) (time.Time, error) {
	switch all, near := readings(t, local); {
	case len(all) == 1 || len(all) > 1 && isDay:
		return all[0], nil
	case isDay: // it began when the clock was turned forward
		start, _ := t.Add(oneDay).In(local).ZoneBounds()
		return start, nil
	case len(all) == 0:
		return t, &unclearError{text, "is a time that clocks here left out when they were turned forward", t, near}
	default:
		return t, &unclearError{text, "was here twice, since clocks were turned back", t, all}
	}
}

const oneDay = 24 * time.Hour

// readings returns the times at which a local clock showed what t shows in UTC. The near times are when it would have shown that
// time with the offset of the previous or the next day. In between it may be turned back or forward.
func readings(t time.Time, local *time.Location) (all, near []time.Time) {
	for _, day := range []time.Time{t.Add(-oneDay), t.Add(oneDay)} {
		_, offset := day.In(local).Zone()
		read := t.Add(-time.Duration(offset) * time.Second).In(local)
		near = append(near, read)
		if inUTC(read).Equal(t) && !slices.ContainsFunc(all, read.Equal) {
			all = append(all, read)
		}
	}
	return all, near
}

// inUTC returns the time at which a clock in UTC shows what t shows.
func inUTC(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// dayOf returns the day that a word names: today, yesterday, or the last one of a weekday's name, which may be today.
func dayOf(word string, now time.Time) (day time.Time, isDay bool) {
	for ago := range 7 {
		day = now.AddDate(0, 0, -ago)
		weekday := strings.ToLower(day.Weekday().String())
		if word == weekday || word == weekday[:3] || ago == 0 && word == "today" || ago == 1 && word == "yesterday" {
			return day, true
		}
	}
	return day, false
}
