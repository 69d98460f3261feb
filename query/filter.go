package query

import (
	"errors"
	"fmt"

	"cel.dev/cel-go/cel"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"kubecdc/change"
	"kubecdc/query/who"
	"kubecdc/sinks"
)

// Filter is a CEL expression over a change.
type Filter struct{ program cel.Program }

// NewFilter compiles an expression. Its variables are before and after (objects, or null), op (c, u, d, r), resource, ns and
// name. The variable by is the user who made the change, or empty if that is not one certain user. A deletion is also selected if
// the expression is true for the user who requested it.
func NewFilter(expression string) (*Filter, error) {
	env, err := cel.NewEnv(cel.Variable("before", cel.DynType), cel.Variable("after", cel.DynType),
		cel.Variable("op", cel.StringType),
		cel.Variable("resource", cel.StringType), cel.Variable("ns", cel.StringType), cel.Variable("name", cel.StringType),
		cel.Variable("by", cel.StringType))
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		return nil, fmt.Errorf("%w\nit may use before, after, op, resource, ns, name and by", issues.Err())
	}
	if t := ast.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("%s gives a %s, not true or false", expression, t)
	}
	program, err := env.Program(ast)
	return &Filter{program}, err
}

// Selects reports whether the expression is true for a change. It returns an error for a change to which the expression does not
// apply, for instance if the object lacks a field that it names.
func (f *Filter) Selects(l *sinks.Logged, requester *who.Who) (bool, error) {
	before, err1 := image(l.Before)
	after, err2 := image(l.After)
	if err := errors.Join(err1, err2); err != nil {
		return false, err
	}
	result, _, err := f.program.Eval(map[string]any{"before": before, "after": after, "op": l.Op.String(),
		"resource": change.ResourceOf(l.Stream.ID()).ID(), "ns": l.Namespace, "name": l.Name, "by": requester.Certain()})
	if err != nil {
		return false, err
	}
	selected, ok := result.Value().(bool)
	if !ok {
		return false, fmt.Errorf("it gives %v, not true or false", result.Value())
	}
	if !selected && requester != nil && requester.AskedBy != nil {
		return f.Selects(l, requester.AskedBy)
	}
	return selected, nil
}

// image decodes an image for CEL. Integers become int, as in Kubernetes' own expressions.
func image(body []byte) (any, error) {
	if body == nil {
		return nil, nil
	}
	var v any
	if err := utiljson.Unmarshal(body, &v); err != nil {
		return nil, fmt.Errorf("decode an image: %w", err)
	}
	return v, nil
}
