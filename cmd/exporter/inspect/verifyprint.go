package inspect

import (
	"io"
	"time"

	"kubecdc/change"
	"kubecdc/cmd/exporter/cli"
	"kubecdc/internal/plain"
	"kubecdc/verify"
)

// printedObjects is how many differing objects of a stream a table shows.
const printedObjects = 20

func printVerified(w io.Writer, out *cli.Output, all []verify.Result) error {
	if out.Format == "name" {
		for _, r := range all {
			for _, d := range r.Differences {
				_, name := change.SplitKey(d.Key)
				plain.Fprintf(w, "%s/%s\n", change.ResourceOf(r.Stream).ID(), name)
			}
		}
		return nil
	}
	return out.Print(w, all, func(t io.Writer) {
		plain.Fprintf(t, "STREAM\tIN\tRESOURCEVERSION\tOBJECTS\t"+
			"MISSING\tSTALE\tEXTRA\tCHANGED\tAPART\tPENDING\tIGNORED\tBEHIND\n")
		for _, r := range all {
			if r.Problem != "" {
				plain.Fprintf(t, "%s\t%s\tnot compared: %s\n", r.Stream, r.In, r.Problem)
				continue
			}
			plain.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", r.Stream, r.In, r.ResourceVersion, r.Objects,
				r.Count(verify.Missing),
				r.Count(verify.Stale), r.Count(verify.Extra), r.Count(verify.Changed), r.Count(verify.Scattered), r.Pending,
				r.Ignored,
				time.Since(r.Confirmed).Round(time.Second))
		}
		if verify.Differing(all) > 0 {
			writeDifferences(t, all, out.Format == "wide")
		}
	})
}

func writeDifferences(t io.Writer, all []verify.Result, isWide bool) {
	plain.Fprintf(t, "\nSTREAM\tIN\tOBJECT\tIS\tIN THE CLUSTER\tTHERE\n")
	for _, r := range all {
		for i, d := range r.Differences {
			if i == printedObjects && !isWide {
				plain.Fprintf(t, "%s\t%s\tand %d more: -o wide has all\n", r.Stream, r.In, len(r.Differences)-i)
				break
			}
			plain.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Stream, r.In, d.Key, d.Kind, versionOf(d.Live), versionOf(d.Held))
		}
	}
}

func versionOf(o *verify.Object) string {
	if o == nil {
		return "-"
	}
	return string(o.Version)
}
