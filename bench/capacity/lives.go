package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// go run ./bench/size record bench/capacity/lives.json makes it, and explains the holes.
//
//go:embed lives.json
var recorded []byte

// life is what watches show of the objects of a resource.
type life struct {
	types  []string
	states []template
}

// template is the text of a state: literals, with a hole after each but the last.
type template struct {
	literals []string
	holes    []hole
}

type hole struct {
	kind     byte // N, U, V, T, M or H
	from, to int  // for T and M, from is the state whose time it is. H has a part of the text
}

var holeText = regexp.MustCompile(`«([NUVTMH])(\d*)-?(\d*)»`)

func readLives() (map[string]life, error) {
	var all map[string]struct {
		Types  []string
		States []json.RawMessage
	}
	if err := json.Unmarshal(recorded, &all); err != nil {
		return nil, fmt.Errorf("read lives.json: %w", err)
	}
	lives := map[string]life{}
	for plural, l := range all {
		states := make([]template, 0, len(l.States))
		for _, s := range l.States {
			states = append(states, parseTemplate(string(s)))
		}
		lives[plural] = life{l.Types, states}
	}
	return lives, nil
}

func parseTemplate(text string) (t template) {
	position := 0
	for _, m := range holeText.FindAllStringSubmatchIndex(text, -1) {
		h := hole{kind: text[m[2]]}
		h.from, _ = strconv.Atoi(text[m[4]:m[5]])
		h.to, _ = strconv.Atoi(text[m[6]:m[7]])
		t.literals, t.holes = append(t.literals, text[position:m[0]]), append(t.holes, h)
		position = m[1]
	}
	t.literals = append(t.literals, text[position:])
	return t
}

// render fills in what is an object's own, and the times of its states.
func (t template) render(dst []byte, v *version, timeOf func(state int) time.Time) []byte {
	for i, h := range t.holes {
		dst = append(dst, t.literals[i]...)
		switch h.kind {
		case 'N':
			dst = fmt.Appendf(dst, "%07d", v.id)
		case 'U':
			dst = append(dst, v.uid...)
		case 'V':
			dst = strconv.AppendUint(dst, v.number, 10)
		case 'T':
			dst = timeOf(h.from).AppendFormat(dst, "2006-01-02T15:04:05Z")
		case 'M':
			dst = timeOf(h.from).AppendFormat(dst, "2006-01-02T15:04:05.000000Z")
		case 'H':
			dst = append(dst, v.own[h.from:h.to]...)
		}
	}
	return append(dst, t.literals[len(t.holes)]...)
}

// size is the mean of an object's bytes over its life.
func (l life) size() (mean float64) {
	c := &collection{life: l}
	o := &object{collection: c, own: fmt.Sprintf("%064d", 0), uid: fmt.Sprintf("%036d", 0)}
	o.history = []*version{{object: o, number: firstVersion}}
	for state := range l.states {
		mean += float64(len((&version{object: o, number: firstVersion, state: state}).render(nil))) / float64(len(l.states))
	}
	return mean
}

// metadataOf is the metadata in an object's text.
func metadataOf(text []byte) []byte {
	var object struct{ Metadata json.RawMessage }
	_ = json.Unmarshal(text, &object) // it was rendered from JSON
	return object.Metadata
}
