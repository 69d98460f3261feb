// Package cells has the cells of the tables that kubectl get prints, as kube-apiserver's printers compute them.
package cells

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
)

// columnsText has the cells of built-in resources. An expression is a template, or a function with its arguments. A template has
// texts of paths in braces, which may name a text in place of an empty one. A path such as status.conditions[type=Ready].status
// selects items of a list, and [*] selects all.
//
//go:embed columns.txt
var columnsText string

// Column is a column of a table, and its cell.
type Column struct {
	Name string
	Cell Cell
}

// BuiltIn has the columns of the built-in resources after the name, by the resource's id.
var BuiltIn = sync.OnceValue(func() map[string][]Column {
	all, resource := map[string][]Column{}, ""
	for line := range strings.Lines(columnsText) {
		switch name, expression, isCell := strings.Cut(strings.TrimSpace(line), ": "); {
		case strings.HasPrefix(line, "#"):
		case isCell:
			all[resource] = append(all[resource], Column{name, cellOf(strings.TrimSpace(expression))})
		default:
			resource = name
		}
	}
	return all
})

// cellOf returns the cell of an expression.
func cellOf(expression string) Cell {
	name, rest, _ := strings.Cut(expression, " ")
	switch makes, computes := functions[name], computed[name]; {
	case name == "when":
		return when(strings.Fields(rest))
	case makes != nil:
		return makes(strings.Fields(rest))
	case computes != nil:
		return computes
	case strings.HasPrefix(expression, "{"):
		return func(r *Row) any {
			return pathInBraces.ReplaceAllStringFunc(expression, func(found string) string {
				path, without, _ := strings.Cut(found[1:len(found)-1], "|")
				return orText(r.Text(path), without)
			})
		}
	}
	panic("columns.txt: " + expression) // it is part of the program
}

var pathInBraces = regexp.MustCompile(`\{[^}]*\}`)

// functions make a cell of arguments. The first one is a path in most cases.
var functions = map[string]func(args []string) Cell{
	"number": func(args []string) Cell {
		return func(r *Row) any {
			if len(args) > 1 && r.member(args[0]) == nil {
				return args[1]
			}
			return r.number(args[0])
		}
	},
	"boolean": func(args []string) Cell {
		return func(r *Row) any {
			if b, known := r.member(args[0]).(bool); known {
				return b
			}
			return len(args) > 1
		}
	},
	"capital": func(args []string) Cell {
		return func(r *Row) any {
			if b, known := r.member(args[0]).(bool); known {
				return map[bool]string{true: "True", false: "False"}[b]
			}
			return "<unset>"
		}
	},
	"ago": func(args []string) Cell {
		return func(r *Row) any {
			if r.member(args[0]) == nil {
				return strings.Join(args[1:], "")
			}
			return r.since(r.Text(args[0]), "<invalid>")
		}
	},
	"count": func(args []string) Cell {
		return func(r *Row) any {
			n := 0
			for _, path := range args {
				m, _ := r.member(path).(map[string]any)
				n += len(m) + len(r.list(path))
			}
			return int64(n)
		}
	},
	"join": func(args []string) Cell {
		return func(r *Row) any { return orText(strings.Join(r.texts(args[0]), ","), strings.Join(args[1:], "")) }
	},
	"list": func(args []string) Cell { return func(r *Row) any { return strings.Join(r.texts(args[0]), ", ") } },
	"some": func(args []string) Cell { return func(r *Row) any { return some(r.texts(args[0]), "<unset>") } },
	"has":  func(args []string) Cell { return func(r *Row) any { return r.has(args[0]) } },
	"lastOf": func(args []string) Cell { // the last text of several, or the text after the path
		return func(r *Row) any {
			found := slices.DeleteFunc(r.texts(args[0]), func(text string) bool { return !slices.Contains(args[2:], text) })
			return append([]string{args[1]}, found...)[len(found)]
		}
	},
	"labels":       func(args []string) Cell { return func(r *Row) any { return labels.FormatLabels(r.Labels(args[0])) } },
	"selector":     selector,
	"asSelector":   asSelector,
	"modes":        modes,
	"quota":        quota,
	"trimmed":      func(args []string) Cell { return func(r *Row) any { return strings.TrimSpace(r.Text(args[0])) } },
	"eventFirst":   func(args []string) Cell { return func(r *Row) any { return r.firstSeen(args[0]) } },
	"eventLast":    eventLast,
	"eventSubject": eventSubject,
	"eventSource":  eventSource,
	"eventCount":   eventCount,
}

// when returns the cell of the expression after a path and another text, which stands for it if the path has nothing.
func when(args []string) Cell {
	some := cellOf(strings.Join(args[2:], " "))
	return func(r *Row) any {
		if r.Text(args[0]) == "" {
			return strings.Trim(args[1], "'")
		}
		return some(r)
	}
}

// computed has the cells without arguments.
var computed = map[string]Cell{
	"age": age, "phase": phase, "class": class, "endpoints": endpoints, "controller": controller, "metrics": metrics,
	"hosts":      hosts,
	"nodeStatus": nodeStatus, "nodeRoles": nodeRoles, "kernel": kernel, "externalIP": externalIP, "servicePorts": servicePorts,
	"podReady": podReady, "podStatus": podStatus, "podRestarts": podRestarts, "readinessGates": readinessGates,
	"apiServiceAvailable": apiServiceAvailable, "jobStatus": jobStatus, "completions": completions, "jobDuration": jobDuration,
	"requestedDuration": requestedDuration, "csrStatus": csrStatus, "ingressParameters": ingressParameters,
	"ingressPorts": ingressPorts,
	"loadBalancer": func(r *Row) any { return loadBalancer(r) }, "parentRef": parentRef, "serviceAccounts": serviceAccounts,
	"paramRef":    paramRef,
	"crdVersions": crdVersions, "slicePorts": slicePorts, "migrated": migrated, "claimState": claimState,
}

// valuesAt returns the members of an object at a path. A path through a list has a member for each item, or nil if the item has
// none.
func valuesAt(v any, path string) (all []any) {
	name, rest, more := strings.Cut(path, ".")
	name, condition, isList := strings.Cut(name, "[")
	m, _ := v.(map[string]any)
	values := []any{m[name]}
	if isList {
		values = slices.DeleteFunc(slices.Clone(listOf(m[name])),
			func(item any) bool { return !satisfies(item, strings.TrimSuffix(condition, "]")) })
	}
	if !more {
		return values
	}
	for _, value := range values {
		all = append(all, valuesAt(value, rest)...)
	}
	return all
}

// satisfies reports whether an item has all members of a condition, such as type=Ready,status=True.
func satisfies(item any, condition string) bool {
	for pair := range strings.SplitSeq(condition, ",") {
		if name, value, _ := strings.Cut(pair, "="); name != "*" && TextOf(MemberAt(item, name)) != value {
			return false
		}
	}
	return true
}
