package apiclient

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

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
