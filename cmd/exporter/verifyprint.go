package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"sigs.k8s.io/yaml"

	"kubecdc/verify"
)

// printAs prints a document as json or yaml.
func printAs(out io.Writer, format string, document any) error {
	if format == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(document)
	}
	text, err := yaml.Marshal(document)
	if err == nil {
		_, err = out.Write(text)
	}
	return err
}

// printedObjects is how many of a stream's objects that differ a table has.
const printedObjects = 20

func printVerified(out io.Writer, format string, all []verify.Result) error {
	if format != "table" {
		return printAs(out, format, all)
	}
	t := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "STREAM\tIN\tRESOURCEVERSION\tOBJECTS\tMISSING\tSTALE\tEXTRA\tPENDING\tIGNORED")
	for _, r := range all {
		if r.Problem != "" {
			fmt.Fprintf(t, "%s\t%s\tnot compared: %s\n", r.Stream, r.In, r.Problem)
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\n", r.Stream, r.In, r.ResourceVersion, r.Objects, r.Count(verify.Missing),
			r.Count(verify.Stale), r.Count(verify.Extra), r.Pending, r.Ignored)
	}
	if err := t.Flush(); err != nil || differing(all) == 0 {
		return err
	}
	fmt.Fprintln(t, "\nSTREAM\tIN\tOBJECT\tIS\tIN THE CLUSTER\tTHERE")
	for _, r := range all {
		for i, d := range r.Differences {
			if i == printedObjects {
				fmt.Fprintf(t, "%s\t%s\tand %d more: -o json has all\n", r.Stream, r.In, len(r.Differences)-i)
				break
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Stream, r.In, d.Key, d.Kind, versionOf(d.Live), versionOf(d.Held))
		}
	}
	return t.Flush()
}

func versionOf(o *verify.Object) string {
	if o == nil {
		return "-"
	}
	return string(o.Version)
}

func printProven(out io.Writer, format string, all []verify.Proven) error {
	if format != "table" {
		return printAs(out, format, all)
	}
	if len(all) == 0 {
		fmt.Fprintln(out, "the log has no proof records")
		return nil
	}
	t := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "STREAM\tRESOURCEVERSION\tLOGGED\tPROVEN OBJECTS\tPROOF\tOBJECTS IN THE LOG\tLOG")
	for _, p := range all {
		result := "equal"
		switch {
		case p.Problem != "":
			result = "not compared: " + p.Problem
		case !p.Equal:
			result = "different"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%d\t%s\n", p.Stream, p.ResourceVersion, p.Logged.UTC().Format("2006-01-02T15:04:05Z"), p.Proof.Objects,
			p.Proof.Result, p.Objects, result)
	}
	return t.Flush()
}
