package page

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"kubecdc/answer"
	"kubecdc/internal/plain"
	"kubecdc/query/timeline"
)

// mark is an annotation of a dashboard. Commas separate its tags.
type mark struct {
	Time    string `json:"time"`
	TimeEnd string `json:"timeEnd,omitempty"`
	Title   string `json:"title"`
	Text    string `json:"text"`
	Tags    string `json:"tags"`
}

// marksBytes bounds the answer that marks are made of, to a few hundred.
const marksBytes = 60_000

// Marks answers what people changed, and gaps, as annotations of a dashboard. What followed by itself is left out.
func Marks(w http.ResponseWriter, r *http.Request, log *answer.Log) error {
	v := &view{log: log, asked: r.URL.Query()}
	span := v.span()
	if until, err := time.Parse(time.RFC3339, span.Until); err == nil && until.After(time.Now()) {
		span.Until = "" // a dashboard's range may end in the future
	}
	found, err := log.WhatChanged(r.Context(), &answer.Changed{Place: v.place(), Span: span, By: v.get("by"),
		Page: answer.Page{MaxBytes: marksBytes}})
	if err != nil {
		http.Error(w, plain.Lines(err.Error()), statusOf(err))
		return nil
	}
	all := []mark{}
	for _, u := range found.Unknown {
		if u.Kind == timeline.SpanMissing && !u.From.IsZero() {
			all = append(all, mark{u.From.UTC().Format(time.RFC3339), u.To.UTC().Format(time.RFC3339), "changes may be missing",
				string(u.Stream) + ": " + u.Reason, "gap"})
		}
	}
	for i := range found.Changes {
		c := &found.Changes[i]
		if c.Several != nil && c.Several.Author == "" {
			continue
		}
		row := rowOf(c)
		text := strings.Join(c.Data, "\n")
		if c.By != "" {
			text = strings.TrimSpace("by " + c.By + "\n" + text)
		}
		tags := []string{row.resource, what(c)}
		if c.Namespace != "" {
			tags = append(tags, c.Namespace)
		}
		all = append(all, mark{Time: c.Time, Title: row.title() + " " + what(c), Text: text, Tags: strings.Join(tags, ",")})
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(all)
}
