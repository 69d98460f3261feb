package apiclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
)

// completeList reads a list with encoding/json, to compare with. ok is false unless b is one complete list and nothing else.
func completeList(b []byte) (p Page, items []string, ok bool) {
	members := map[string][]json.RawMessage{}
	d := json.NewDecoder(bytes.NewReader(b))
	if first, err := d.Token(); !json.Valid(b) || err != nil || first != json.Delim('{') {
		return p, nil, false
	}
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return p, nil, false
		}
		members[name.(string)] = append(members[name.(string)], value)
	}
	var meta metav1.ListMeta
	var raw []json.RawMessage
	if len(members["metadata"]) != 1 || len(members["items"]) != 1 || json.Unmarshal(members["metadata"][0], &meta) != nil ||
		json.Unmarshal(members["items"][0], &raw) != nil {
		return p, nil, false
	}
	p = Page{Version: change.ResourceVersion(meta.ResourceVersion), Continue: meta.Continue, Remaining: -1}
	if meta.RemainingItemCount != nil {
		p.Remaining = *meta.RemainingItemCount
	}
	for _, item := range raw {
		items = append(items, string(item))
	}
	return p, items, p.Version.Valid() && (p.Continue != "" || p.Remaining <= 0)
}

func checkPage(t *testing.T, what string, from io.Reader, b []byte) {
	t.Helper()
	var items []string
	p, err := readPage(from, func(_ *Page, o *Object, unreadable error) error {
		items = append(items, string(o.Raw))
		alone, err := ParseObject(o.Raw)
		if alone.Raw = o.Raw; !reflect.DeepEqual(alone, *o) || fmt.Sprint(err) != fmt.Sprint(unreadable) {
			t.Fatalf("%s: %.200q is read as %+v, %v; by itself as %+v, %v", what, o.Raw, *o, unreadable, alone, err)
		}
		return nil
	})
	wantPage, want, ok := completeList(b)
	if (err == nil) != ok || ok && (p != wantPage || !slices.Equal(items, want)) {
		t.Fatalf("%s: %.200q: a list: %t, want %t: %v: %+v with %d items, want %+v with %d", what, b, err == nil, ok, err, p, len(items),
			wantPage, len(want))
	}
	if err != nil && !errors.Is(err, rawjson.ErrMalformed) && !errors.Is(err, ErrUnsupported) && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("%s: %.200q: %v", what, b, err)
	}
}

const smallList = `{"kind":"List","metadata":{"resourceVersion":"5","continue":"x","remainingItemCount":3},"items":[{"metadata":{"name":"n"}},{}]}`

var incompleteLists = []string{
	`<html><body>Bad gateway</body></html>`,
	`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","code":500}`,
	`{"kind":"Status","metadata":{"resourceVersion":"5"},"status":"Failure","code":500}`,
	`{"error":"upstream"}`,
	`{"metadata":{"resourceVersion":"5"}}`,
	`{"items":[]}`,
	`{"metadata":null,"items":[]}`,
	`{"metadata":{"resourceVersion":"5"},"items":{}}`,
	`{"metadata":{"resourceVersion":"5"},"items":[{}],"items":[]}`,
	`{"metadata":{"resourceVersion":"5","continue":"x"},"items":[{}],"metadata":{"resourceVersion":"5"}}`,
	`{"metadata":{"resourceVersion":"5"},"items":[]}{"metadata":{"resourceVersion":"6"},"items":[{}]}`,
	`{"metadata":{"resourceVersion":"5"},"items":[]}{"kind":"Status","status":"Failure","code":500}`,
	`{"metadata":{"resourceVersion":"5"},"items":[{}{"kind":"Status","status":"Failure","code":500}`,
	`{"metadata":{"resourceVersion":"5","remainingItemCount":3},"items":[]}`,
	`{"metadata":{"resourceVersion":"5","continue":7},"items":[]}`,
	`{"metadata":{"resourceVersion":5},"items":[]}`,
	`[]`, `null`, ``, ` `,
}

var completeLists = []string{
	smallList,
	` {"metadata" : {"resourceVersion" : "5"} , "items" : null } ` + "\n",
	`{"apiVersion":"v1","items":[{}],"kind":"CustomList","metadata":{"continue":"","resourceVersion":"5"}}` + "\n",
	`{"metadata":{"resourceVersion":"5","remainingItemCount":null},"items":[]}`,
	`{"met\u0061data":{"c\u006fntinue":"t\u006f","resourceVersion":"5"},"it\u0065ms":[{"a":"]}"}]}`,
}

// A response is a list if all of it is one, in whichever pieces it comes.
func FuzzReadPage(f *testing.F) {
	for _, s := range slices.Concat(seeds, completeLists, incompleteLists) {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		checkPage(t, "whole", bytes.NewReader(b), b)
		checkPage(t, "bytes", iotest.OneByteReader(bytes.NewReader(b)), b)
		checkPage(t, "with the end", iotest.DataErrReader(bytes.NewReader(b)), b)
	})
}

// If a stream took a cut list for a complete one, it would close a gap, and delete the objects that the list lacks.
func TestOnlyACompleteListIsAList(t *testing.T) {
	for _, s := range completeLists {
		if _, _, ok := completeList([]byte(s)); !ok {
			t.Errorf("%s: want a list", s)
		}
		checkPage(t, "whole", strings.NewReader(s), []byte(s))
	}
	for _, s := range incompleteLists {
		if _, _, ok := completeList([]byte(s)); ok {
			t.Errorf("%s: want no list", s)
		}
		checkPage(t, "not whole", strings.NewReader(s), []byte(s))
	}
}

// However a list is cut, and whichever of its bytes is wrong, it is a list only if encoding/json takes it for one.
func TestCutAndBrokenLists(t *testing.T) {
	for _, s := range completeLists {
		for n := range len(s) {
			checkPage(t, "cut", strings.NewReader(s[:n]), []byte(s[:n]))
			for _, c := range []byte("\x00 \"\\{}[],:0n<\xff") {
				broken := []byte(s)
				broken[n] = c
				checkPage(t, "broken", bytes.NewReader(broken), broken)
			}
		}
	}
}

// The same holds for a list of many reads, with items larger than a read, and whatever error the connection ends with.
func TestCutLargeLists(t *testing.T) {
	var items []string
	for i := range 30 {
		items = append(items, fmt.Sprintf(`{"metadata":{"name":"n%d"},"text":%q}`, i, strings.Repeat("x\n", i*i*i%10_000)))
	}
	s := `{"metadata":{"resourceVersion":"5"},"items":[` + strings.Join(items, ",") + "]}\n"
	checkPage(t, "whole", strings.NewReader(s), []byte(s))
	for n := 1; n < len(s)-1; n += 1999 {
		for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, ErrIdle} {
			seen := 0
			_, err := readPage(io.MultiReader(strings.NewReader(s[:n]), iotest.ErrReader(end)), func(_ *Page, o *Object, _ error) error {
				if string(o.Raw) != items[seen] {
					t.Fatalf("cut at byte %d: item %d is not what was sent", n, seen)
				}
				seen++
				return nil
			})
			if !IsConnectionEnd(err) {
				t.Fatalf("cut at byte %d of %d by %v: %v", n, len(s), end, err)
			}
		}
	}
}

func BenchmarkReadPage(b *testing.B) {
	item := `{"metadata":{"name":"n","namespace":"ns","uid":"u","resourceVersion":"7"},"spec":{"containers":[` +
		strings.TrimSuffix(strings.Repeat(`{"name":"c","image":"registry.example.com/image:v1","env":[{"name":"A","value":"b"}]},`, 40), ",") + `]}}`
	page := []byte(fmt.Sprintf(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[%s]}`,
		strings.TrimSuffix(strings.Repeat(item+",", 500), ",")))
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		_, err := readPage(bytes.NewReader(page), func(*Page, *Object, error) error { n++; return nil })
		if err != nil || n != 500 {
			b.Fatal(n, err)
		}
	}
}
