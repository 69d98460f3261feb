package screen

import (
	"strings"
	"testing"
)

// Cells are aligned in columns of the terminal: a Chinese character takes two, an accent none.
func TestATableIsAlignedInColumns(t *testing.T) {
	var out strings.Builder
	table := NewTable(&out)
	for _, row := range []string{"WHO\tWHAT\tEND\n", "王小明\tpods\t·\n", "Jose\u0301\tdeployments\t·\n", "🚀\tx\t·\n", "a remark\n"} {
		if _, err := table.Write([]byte(row)); err != nil {
			t.Fatal(err)
		}
	}
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	want := "WHO      WHAT          END\n王小明   pods          ·\nJose\u0301     deployments   ·\n🚀       x             ·\na remark\n"
	if out.String() != want {
		t.Errorf("the table is\n%s\nwant\n%s", out.String(), want)
	}
}
