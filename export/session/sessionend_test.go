package session

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/internal/dependency"
	"kubecdc/sinks"
)

// endsNone are the errors that end no session, with the reason.
var endsNone = map[string]string{
	"sinks.ErrNotRetained":           "only questions meet it",
	"sinks.ErrNoCluster":             "only questions meet it",
	"sinks.ErrEnough":                "only questions end a read with it",
	"checkpoint.OtherClusterError":   "the start binds the checkpoint",
	"checkpoint.UnknownClusterError": "the start binds the checkpoint",
	"checkpoint.NotEndedError":       "the answer to a request to forget a stream",
	"checkpoint.ErrSignalEnded":      "the answer to a request",
	"discovery.UnknownError":         "the start reads the settings",
	"discovery.UnsureError":          "the stream asks again",
	"discovery.ErrCompacted":         "the stream's recovery is incomplete then",
	"fault.Database":                 "what is in it decides",
	"fault.OlderTablesError":         "the start opens the tables",
	"fault.InUseError":               "the start opens the file",
	"fault.Usage":                    "a command meets it",
	"session.ErrShutdownTimeout":     "the process ends already",
	"commit.HeldBackError":           "the stream begins later",
	"spooling.ErrMoreLeft":           "the session that forwards a spool reads on",
	"spooling.errSpoolFull":          "the session waits",
	"spooling.ErrSinkSilent":         "an error of the sink like any other",
	"streams.errAborted":             "the answer to a request",
}

// Each kind of error of the packages that a session uses has a row in the table, or a reason for none.
func TestEachKindOfErrorEndsASessionInAKnownWay(t *testing.T) {
	rows := map[string]bool{}
	for _, row := range ends {
		for _, kind := range row.errs {
			rows[kind.name] = true
		}
	}
	declared := map[string]bool{}
	for _, dir := range []string{".", "../plan", "../commit", "../streams", "../spooling", "../inventory",
		"../../sinks", "../../sinks/spool", "../../checkpoint", "../../source/discovery", "../../change", "../../internal/fault"} {
		for _, name := range errorsOf(t, dir) {
			declared[name] = true
			if rows[name] == (endsNone[name] != "") {
				t.Errorf("%s needs a row in the table of ends, or a reason for none: one of both", name)
			}
		}
	}
	elsewhere := map[string]bool{"apiclient.OtherClusterError": true, "sqlitefile.ErrMoved": true}
	for name := range rows {
		if !declared[name] && !elsewhere[name] {
			t.Errorf("%s is not declared", name)
		}
	}
	for name := range endsNone {
		if !declared[name] {
			t.Errorf("%s is not declared", name)
		}
	}
}

// errorsOf lists the types of errors and the single ones that a package declares. Others in it stand for one that is elsewhere.
func errorsOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	mustDo(t, err)
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		mustDo(t, err)
		for _, decl := range file.Decls {
			for _, name := range errorsIn(decl) {
				names = append(names, file.Name.Name+"."+name)
			}
		}
	}
	if len(names) == 0 {
		t.Errorf("%s declares no error", dir)
	}
	return names
}

func errorsIn(decl ast.Decl) (names []string) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv != nil && d.Name.Name == "Error" && len(d.Type.Params.List) == 0 {
			receiver := d.Recv.List[0].Type
			if pointer, ok := receiver.(*ast.StarExpr); ok {
				receiver = pointer.X
			}
			names = append(names, receiver.(*ast.Ident).Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if v, ok := spec.(*ast.ValueSpec); ok && d.Tok == token.VAR && len(v.Values) == 1 && makesError(v.Values[0]) {
				names = append(names, v.Names[0].Name)
			}
		}
	}
	return names
}

// makesError reports whether an expression is a call of errors.New or fmt.Errorf.
func makesError(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	return ok && (f.Sel.Name == "New" || f.Sel.Name == "Errorf") && fmt.Sprint(f.X) != "fault"
}

func TestTheDesignPagePrintsHowASessionEnds(t *testing.T) {
	page, err := os.ReadFile("../../docs/design.md")
	mustDo(t, err)
	var table strings.Builder
	row := func(what string, errs []errorKind, next outcome, then string) {
		names := make([]string, len(errs))
		for i, kind := range errs {
			names[i] = "`" + kind.name + "`"
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", what, strings.Join(names, ", "), next, then)
	}
	for _, r := range ends {
		row(r.what, r.errs, r.next, r.then)
	}
	row(sinkTakesNoBatch, nil, spoolNext, "it writes to a spool")
	row(anyOther, nil, retry, "it starts from what is durable")
	if !strings.Contains(string(page), "\n"+table.String()+"\n") {
		t.Errorf("docs/design.md does not have this table:\n%s", table.String())
	}
}

func TestWhatFollowsASession(t *testing.T) {
	batch := &change.Batch{Epoch: 1, Seq: 8}
	sink := func(err error) error { return dependency.Tag(dependency.Sink, err) }
	other := errors.New("something new")
	for _, test := range []struct {
		name   string
		err    error
		state  sinkState
		ending bool
		want   outcome
	}{
		{"drained", nil, acked(batch), true, drained},
		{"stopped", sink(other), sending(batch), true, stopped},
		{"fenced while it ends", checkpoint.ErrFenced, acked(batch), true, fenced},
		{"a new error of the sink, in doubt", sink(other), sending(batch), false, spoolNext},
		{"again, after the sink was away", sink(other), failed(sending(batch), other), false, spoolNext},
		{"a new error of the sink, and nothing was sent", sink(other), acked(batch), false, retry},
		{"a new error of the sink, and nothing is known", sink(other), unknown{}, false, retry},
		{"a new error of nobody", other, sending(batch), false, retry},
		{"a new error of the checkpoint", dependency.Tag(dependency.Checkpoint, other), sending(batch), false, retry},
		{"a loss", sink(&sinks.LostTailError{}), sending(batch), false, retry},
		{"a refusal", sink(&sinks.RefusedError{}), sending(batch), false, atOnce},
		{"another cluster, among other errors", errors.Join(other, sink(&sinks.OtherClusterError{})), sending(batch), false, final},
	} {
		if got, _ := outcomeOf(test.err, test.state, test.ending); got != test.want {
			t.Errorf("%s: %s follows, want %s", test.name, got, test.want)
		}
	}
}

func TestWhatIsKnownOfTheEndOfTheLog(t *testing.T) {
	b := &change.Batch{Epoch: 3, Seq: 8}
	why := errors.New("away")
	gone := failed(sending(b), why)
	owned := func(epoch int64, seq uint64) *checkpoint.SlotState {
		return &checkpoint.SlotState{Epoch: epoch, Seq: seq}
	}
	for name, test := range map[string]struct{ got, want sinkState }{
		"sending":                      {sending(b), doubt{settled{3, 7}, b}},
		"acknowledged":                 {acked(b), settled{3, 8}},
		"failed":                       {gone, away{doubt{settled{3, 7}, b}, why}},
		"failed, and nothing was sent": {failed(acked(b), why), settled{3, 8}},
		"failed, and nothing is known": {failed(unknown{}, why), unknown{}},
		"asked":                        {gone.(away).doubt, sending(b)},
		"the inventory has what was acknowledged":    {follows(acked(b), 8), acked(b)},
		"the inventory is behind":                    {follows(acked(b), 7), unknown{}},
		"the inventory is behind a batch in doubt":   {follows(sending(b), 7), sending(b)},
		"the inventory has the batch in doubt":       {follows(sending(b), 8), settled{3, 8}},
		"the same, while the sink is away":           {follows(gone, 8), settled{3, 8}},
		"the inventory is behind, and the sink away": {follows(gone, 6), unknown{}},
		"acquired again":                             {acquired(acked(b), owned(4, 8)), settled{4, 8}},
		"acquired again, in doubt":                   {acquired(sending(b), owned(4, 7)), doubt{settled{4, 7}, b}},
		"acquired again, while the sink is away":     {acquired(gone, owned(4, 7)), away{doubt{settled{4, 7}, b}, why}},
		"another owner was between":                  {acquired(acked(b), owned(5, 8)), unknown{}},
		"the same, in doubt":                         {acquired(sending(b), owned(5, 7)), unknown{}},
		"another owner, while the sink is away":      {acquired(gone, owned(5, 7)), unknown{}},
		"nothing was known":                          {acquired(unknown{}, owned(4, 8)), unknown{}},
	} {
		if test.got != test.want {
			t.Errorf("%s: %#v, want %#v", name, test.got, test.want)
		}
	}
}
